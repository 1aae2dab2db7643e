"""A model server in a process of its own that does what a text says, and notes when.

It imports nothing of the gateway, so it measures any version of it, and other programs. The text is what
stands in `[[` and `]]` in the last message of a user that has it, else the last line of the last message of a
user:

- `until TIME ...` is answered in part at once, and in full at that time of the monotonic clock;
- `held ...` is answered in part at once, and in full once `release` was called;
- `close ...` is answered in part, and its connection is closed;
- `words RATE SECONDS ...` is answered, from the call of `begin_words` on, with so many words per second for
  so many seconds;
- `tool NAME FIELD KIND NUMBER ...` calls this tool with a command of this kind that does not end (see
  `COMMANDS`) in this field of its arguments; it is answered at once when its result is there, or once
  `release` was called;
- `day ...` is answered at once, and compared with the request before it;
- every other text is answered at once.

An answer to a text in brackets ends with `end of` and the text, by which it is found in later requests.
"""

from __future__ import annotations

import json
import math
import re
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import takewhile
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

import trio

from .server_process import server_process
from .word_writer import WordWriter

WORDS = "The sea is wide and deep and older than all who sail on it. " * 3
PIECES = [WORDS[at : at + 9] for at in range(0, len(WORDS), 9)]
_TEXT = re.compile(r"\[\[((?:until|held|close|words|tool|recall|quick|day) [^\]]+)\]\]")
_END = re.compile(r"end of \[\(([^)]+)\)\]")
_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
COMMANDS = {
    "deaf": "trap '' TERM INT HUP; sleep 86399 {number}; :",
    "loud": "trap '' TERM INT HUP; yes {number}",
    "forks": (
        'python3 -c "import os; os.fork() or (os.setsid(), os.fork()); '
        "os.execlp('sleep', 'sleep', '86399', '{number}')\""
    ),
}
"""Commands that do not end: one ignores signals, one floods its output, and one leaves its group. Each of
their processes has the number among its arguments."""
_USAGE = {"prompt_tokens": 70, "completion_tokens": 30, "total_tokens": 100}


class ModelTimes(NamedTuple):
    """The times of the last request with a text, on the monotonic clock of the machine, and its content."""

    head: float
    """When its head arrived."""
    body: float
    """When its body had arrived."""
    decoded: float
    """When its body was decoded, which is a cost of this model and not of the gateway."""
    messages: int
    number: int = 1
    """The number of requests with this text so far."""
    size: int = 0
    """The bytes of its body."""
    repeated: float = 0.0
    """The share of its tools and messages that is, from the first character on, that of the request before
    it; only for `day`."""
    asked_before: Mapping[str, int] = {}
    """The texts in the request, and how often each of them is there."""
    answered_before: Mapping[str, int] = {}
    """The texts whose answers are in the request."""
    answered: float = math.inf
    """The time at which the answer was written."""
    closed: float = math.inf
    """The time at which the other side closed the connection before that."""


class ScriptedModel:
    """A model server in a process of its own."""

    def __init__(self, pid: int, port: int, pipe: Connection) -> None:
        self.pid, self.port, self._pipe = pid, port, pipe

    def times(self) -> dict[str, ModelTimes]:
        """Return for each text the times of its request, and forget them."""
        times: dict[str, ModelTimes] = self._told("times")
        return times

    def asked(self) -> int:
        """Return the number of texts that it was asked since `times` was called."""
        asked: int = self._told("asked")
        return asked

    def seen(self) -> dict[str, ModelTimes]:
        """As `times`, but forget nothing."""
        seen: dict[str, ModelTimes] = self._told("seen")
        return seen

    def begin_words(self) -> None:
        """Begin the words of all answers that wait for it."""
        self._told("words")

    def hold(self) -> None:
        """Hold answers from now on."""
        self._told("hold")

    def release(self) -> float:
        """Answer in full what is held, and what will be; return the time of it."""
        at: float = self._told("release")
        return at

    def _told(self, what: str) -> Any:
        self._pipe.send(what)
        return self._pipe.recv()


@contextmanager
def scripted_model() -> Iterator[ScriptedModel]:
    """Run a model server during the block."""
    with server_process(_serve_model) as (pid, pipe):
        yield ScriptedModel(pid, pipe.recv(), pipe)


def _serve_model(pipe: Connection) -> None:
    trio.run(_Server(pipe).run)


class _Server:
    """The server, in its own process."""

    def __init__(self, pipe: Connection) -> None:
        self._pipe = pipe
        self._times: dict[str, ModelTimes] = {}
        self._writer = WordWriter(lambda word: _chunk({"content": word}))
        self._released = trio.Event()
        self._prompt = ""

    async def run(self) -> None:
        """Serve, and tell the process of the benchmark the port first."""
        (listening,) = await trio.open_tcp_listeners(0, host="127.0.0.1", backlog=2048)
        self._pipe.send(listening.socket.getsockname()[1])
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._obey)
            nursery.start_soon(self._writer.run)
            nursery.start_soon(trio.serve_listeners, self._talk, [listening])

    async def _obey(self) -> None:
        while True:
            await trio.lowlevel.wait_readable(self._pipe.fileno())
            match self._pipe.recv():
                case "times":
                    self._pipe.send(self._times)
                    self._times = {}
                case "seen":
                    self._pipe.send(self._times)
                case "words":
                    self._writer.begin()
                    self._pipe.send(None)
                case "release":
                    self._pipe.send(time.monotonic())
                    self._released.set()
                case "hold":
                    self._pipe.send(None)
                    self._released = trio.Event()
                case _:
                    self._pipe.send(len(self._times))

    async def _talk(self, stream: trio.SocketStream) -> None:
        data = bytearray()
        try:
            while True:
                while b"\r\n\r\n" not in data:
                    data += await _more(stream)
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
                    data += await _more(stream)
                body, data = data[:length], data[length:]
                await self._answer(stream, body, head_at)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            return
        finally:
            await trio.aclose_forcefully(stream)

    async def _answer(self, stream: trio.SocketStream, body: bytearray, head_at: float) -> None:
        body_at = time.monotonic()
        asked = json.loads(body)
        messages = asked["messages"]
        text, is_marked = _text_of(messages)
        number = self._times[text].number + 1 if text in self._times else 1
        decoded_at, size = time.monotonic(), len(body)
        repeated = self._repeated(asked) if text.startswith("day ") else 0.0
        self._times[text] = ModelTimes(head_at, body_at, decoded_at, len(messages), number, size, repeated)
        if is_marked:
            whole = "\n".join(map(_content, messages))
            self._times[text] = self._times[text]._replace(
                asked_before=Counter(_TEXT.findall(whole)), answered_before=Counter(_END.findall(whole))
            )
        ending = f"end of [({text})]" if is_marked else ""
        if not asked.get("stream"):
            await stream.send_all(_whole_answer(WORDS + ending))
        elif text.startswith("tool ") and messages[-1]["role"] != "tool" and not self._released.is_set():
            await stream.send_all(_HEAD + _call(text) + _last("tool_calls"))
        elif not await self._write(stream, text, ending):
            self._note(text, closed=time.monotonic())
            raise trio.BrokenResourceError
        self._note(text, answered=time.monotonic())

    async def _write(self, stream: trio.SocketStream, text: str, ending: str) -> bool:
        """Write an answer as a stream. Return False if one of the two sides closed the connection."""
        kind, *given = text.split()
        if kind == "words":
            await stream.send_all(_HEAD)
            await self._writer.write(stream, rate=float(given[0]), seconds=float(given[1]))
            await stream.send_all(_last("stop"))
            return True
        await stream.send_all(_HEAD + _BEGIN)
        match kind:
            case "close":
                return False
            case "held" if await _is_closed_before(stream, math.inf, self._released):
                return False
            case "until" if await _is_closed_before(stream, float(given[0]), None):
                return False
        await stream.send_all(_REST + (_chunk({"content": ending}) if ending else b"") + _last("stop"))
        return True

    def _repeated(self, asked: Mapping[str, Any]) -> float:
        """Return the share of this prompt, from its begin on, with which the one before it began too."""
        before, self._prompt = self._prompt, json.dumps(asked.get("tools")) + json.dumps(asked["messages"])
        pairs = zip(before, self._prompt, strict=False)
        return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs)) / len(self._prompt)

    def _note(self, text: str, **changed: Any) -> None:
        if text in self._times:  # not forgotten meanwhile
            self._times[text] = self._times[text]._replace(**changed)


async def _more(stream: trio.SocketStream) -> bytes:
    data = await stream.receive_some(65536)
    if not data:
        raise trio.ClosedResourceError
    return bytes(data)


async def _is_closed_before(stream: trio.SocketStream, until: float, event: trio.Event | None) -> bool:
    """Wait until this time or this event. Return True at once when the other side closes the connection."""
    closed = False

    async def watch() -> None:
        nonlocal closed
        try:
            await _more(stream)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            closed = True
        nursery.cancel_scope.cancel()

    async with trio.open_nursery() as nursery:
        nursery.cancel_scope.deadline = trio.current_time() + max(0.0, until - time.monotonic())
        nursery.start_soon(watch)
        if event is not None:
            await event.wait()
            nursery.cancel_scope.cancel()
    return closed


def _text_of(messages: list[dict[str, Any]]) -> tuple[str, bool]:
    """Return the text that decides, and whether it stood in brackets."""
    of_users = [_content(one) for one in messages if one["role"] == "user"]
    for content in reversed(of_users):
        if found := _TEXT.findall(content):
            return found[-1], True
    return of_users[-1].strip().splitlines()[-1], False


def _content(message: dict[str, Any]) -> str:
    content = message.get("content") or ""
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)


def _chunk(delta: dict[str, Any], reason: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": reason}
    event = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "bench",
             "choices": [choice], "usage": _USAGE if reason else None}  # fmt: skip
    data = b"data: " + json.dumps(event).encode() + b"\n\n"
    return b"%x\r\n%b\r\n" % (len(data), data)


def _last(reason: str) -> bytes:
    return _chunk({}, reason) + b"e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n"


def _call(text: str) -> bytes:
    _, name, field, kind, number, *_ = text.split()
    arguments = {field: COMMANDS[kind].replace("{number}", number)}
    function = {"name": name, "arguments": json.dumps(arguments)}
    return _chunk(
        {
            "role": "assistant",
            "tool_calls": [{"index": 0, "id": "c1", "type": "function", "function": function}],
        }
    )


def _whole_answer(content: str) -> bytes:
    choice = {"index": 0, "message": {"role": "assistant", "content": content}, "finish_reason": "stop"}
    answer = {"id": "c", "object": "chat.completion", "created": 1, "model": "bench",
              "choices": [choice], "usage": _USAGE}  # fmt: skip
    data = json.dumps(answer).encode()
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
    return head % len(data) + data


_BEGIN = b"".join(_chunk({"role": "assistant", "content": piece}) for piece in PIECES[:5])
_REST = b"".join(_chunk({"content": piece}) for piece in PIECES[5:])
