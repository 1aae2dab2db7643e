"""A model server in a process of its own that notes when it is asked, and when its answer ends.

It imports nothing of the gateway, so it measures any version of it. The last line of a request decides:

- `until TIME ...` is answered in part at once, and in full at that time of the monotonic clock;
- `words RATE SECONDS ...` is answered, from the call of `begin_words` on, with so many words per second for
  so many seconds;
- every other text is answered at once.
"""

from __future__ import annotations

import json
import math
import multiprocessing
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import NamedTuple

import trio

from .word_writer import WordWriter

WORDS = "The sea is wide and deep and older than all who sail on it. " * 3
PIECES = [WORDS[at : at + 9] for at in range(0, len(WORDS), 9)]


class ModelTimes(NamedTuple):
    """The times of one request, on the monotonic clock of the machine."""

    head: float
    """When its head arrived."""
    body: float
    """When its body had arrived."""
    decoded: float
    """When its body was decoded, which is a cost of this model and not of the gateway."""
    messages: int
    answered: float = math.inf


@dataclass(frozen=True, slots=True)
class TimedModel:
    """A model server in a process of its own."""

    pid: int
    port: int
    pipe: Connection

    def times(self) -> dict[str, ModelTimes]:
        """Return for each text the times of its request, and forget them."""
        self.pipe.send("times")
        times: dict[str, ModelTimes] = self.pipe.recv()
        return times

    def asked(self) -> int:
        """Return the number of texts that it was asked since `times` was called."""
        self.pipe.send("asked")
        asked: int = self.pipe.recv()
        return asked

    def begin_words(self) -> None:
        """Begin the words of all answers that wait for it."""
        self.pipe.send("words")
        self.pipe.recv()


@contextmanager
def timed_model() -> Iterator[TimedModel]:
    """Run a model server during the block."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=_serve_model, args=(there,))
    process.start()
    try:
        assert process.pid is not None
        yield TimedModel(process.pid, here.recv(), here)
    finally:
        process.terminate()
        process.join()


def _serve_model(pipe: Connection) -> None:
    times: dict[str, ModelTimes] = {}
    writer = WordWriter(lambda word: chunk({"content": word}))
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
    usage = {"prompt_tokens": 70, "completion_tokens": 30, "total_tokens": 100}

    def chunk(delta: dict[str, str], reason: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "finish_reason": reason}
        event = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "bench",
                 "choices": [choice], "usage": usage if reason else None}  # fmt: skip
        data = b"data: " + json.dumps(event).encode() + b"\n\n"
        return b"%x\r\n%b\r\n" % (len(data), data)

    begin = b"".join(chunk({"role": "assistant", "content": piece}) for piece in PIECES[:5])
    rest = b"".join(chunk({"content": piece}) for piece in PIECES[5:])
    last = chunk({}, "stop") + b"e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n"

    async def answer(stream: trio.SocketStream, body: bytearray, head_at: float) -> None:
        body_at = time.monotonic()
        messages = json.loads(body)["messages"]
        text = next(one["content"] for one in reversed(messages) if one["role"] == "user")
        text = text if isinstance(text, str) else "".join(part.get("text", "") for part in text)
        text = text.strip().splitlines()[-1]
        times[text] = ModelTimes(head_at, body_at, time.monotonic(), len(messages))
        kind, *given = text.split()
        if kind == "words":
            await stream.send_all(head)
            await writer.write(stream, rate=float(given[0]), seconds=float(given[1]))
            await stream.send_all(last)
        else:
            await stream.send_all(head + begin)
            if kind == "until":
                await trio.sleep(max(0.0, float(given[0]) - time.monotonic()))
            await stream.send_all(rest + last)
        if text in times:  # not forgotten meanwhile
            times[text] = times[text]._replace(answered=time.monotonic())

    async def talk(stream: trio.SocketStream) -> None:
        data = bytearray()
        try:
            while True:
                while b"\r\n\r\n" not in data:
                    more = await stream.receive_some(65536)
                    if not more:
                        return
                    data += more
                head_at = time.monotonic()
                first, _, data = data.partition(b"\r\n\r\n")
                if first.startswith(b"GET"):
                    listed = b'{"object":"list","data":[{"id":"bench","object":"model"}]}'
                    await stream.send_all(
                        b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(listed) + listed
                    )
                    continue
                lines = first.lower().split(b"\r\n")
                length = next(int(line[15:]) for line in lines if line.startswith(b"content-length:"))
                while len(data) < length:
                    more = await stream.receive_some(65536)
                    if not more:
                        return
                    data += more
                body, data = data[:length], data[length:]
                await answer(stream, body, head_at)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            return
        finally:
            await trio.aclose_forcefully(stream)

    async def tell() -> None:
        while True:
            await trio.lowlevel.wait_readable(pipe.fileno())
            asked = pipe.recv()
            if asked == "words":
                writer.begin()
            pipe.send(dict(times) if asked == "times" else len(times))
            if asked == "times":
                times.clear()

    async def serving() -> None:
        (listening,) = await trio.open_tcp_listeners(0, host="127.0.0.1", backlog=2048)
        pipe.send(listening.socket.getsockname()[1])
        async with trio.open_nursery() as nursery:
            nursery.start_soon(tell)
            nursery.start_soon(writer.run)
            nursery.start_soon(trio.serve_listeners, talk, [listening])

    trio.run(serving)
