"""A model server on this machine that answers what it is told, in OpenAI's way or in Anthropic's, and
breaks in every way in which a real one does.

    async with open_model_server() as server:
        server.answers(Reply().says("Hello."))                       # the next request; then what comes next
        server.answers(refused("openai", 429, "rate_limit_error", "Slowly.", retry_after="3"))
        ...                                                          # a model with base_url=server.openai_url
        server.requests[0].body                                      # what was asked
        await server.until(lambda: server.open == 0)                 # and nobody is connected any more

`POST …/chat/completions` is answered OpenAI's way, `POST …/messages` Anthropic's, `GET …/models` with the
names in `models`. Without anything left to answer, `otherwise` is the answer; a function of the request
may stand wherever an answer may. The server speaks plain sockets, so that nothing stands between what it
is told to send and the wire; benches use it too.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import trio

from .model_replies import Breaks, Pauses, Plain, Put, Reply, Sends, Wire, events
from .wire import background

_READ_AT_ONCE = 1 << 16


@dataclass(frozen=True, slots=True)
class Asked:
    """A request as it came."""

    method: str
    path: str
    headers: Mapping[str, str]
    """Their names in small letters."""
    body: Any
    """What its JSON says; None without any."""

    @property
    def wire(self) -> Wire:
        return "anthropic" if self.path.endswith("/messages") else "openai"


Answer = Reply | Plain
Answering = Answer | Callable[[Asked], Answer]


@asynccontextmanager
async def open_model_server(
    *, port: int = 0, models: tuple[str, ...] = ("test-model",)
) -> AsyncIterator[ModelServer]:
    """The server, while inside."""
    listeners = await trio.open_tcp_listeners(port, host="127.0.0.1", backlog=1024)
    server = ModelServer(listeners[0].socket.getsockname()[1], models)
    async with background(partial(trio.serve_listeners, server.serve, listeners)):
        yield server


class ModelServer:
    """A model server behind a port."""

    def __init__(self, port: int, models: tuple[str, ...]) -> None:
        self.port, self.models = port, models
        self.requests: list[Asked] = []
        """What was asked for an answer, in order."""
        self.connections = 0
        """How many were ever made."""
        self.open = 0
        """How many there are."""
        self.otherwise: Answering = Reply().says("Hello.")
        self._answers: deque[Answering] = deque()
        self._changed = trio.Event()

    @property
    def openai_url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    @property
    def anthropic_url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def answers(self, *answers: Answering) -> None:
        """What is answered next, one for each request."""
        self._answers += answers

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until this is so; it is looked at whenever something happens."""
        while not condition():
            await self._changed.wait()

    async def serve(self, stream: trio.abc.Stream) -> None:
        """One connection, from its first byte to its last."""
        self.connections += 1
        self.open += 1
        self._notify()
        try:
            async with stream:
                await self._converse(stream)
        except* (trio.BrokenResourceError, _Hangup):
            pass
        finally:
            self.open -= 1
            self._notify()

    async def _converse(self, stream: trio.abc.Stream) -> None:
        data = bytearray()
        while asked := await _request(stream, data):
            if asked.method == "GET" and asked.path.endswith("/models"):
                listed = {"object": "list", "data": [{"id": name, "object": "model"} for name in self.models]}
                await _answer(stream, Plain(200, listed))
                continue
            self.requests.append(asked)
            self._notify()
            answer = self._answers.popleft() if self._answers else self.otherwise
            if callable(answer):
                answer = answer(asked)
            if isinstance(answer, Plain):
                await _answer(stream, answer)
                continue
            async with trio.open_nursery() as nursery:
                # Who hangs up is seen at once, also where the answer is silence.
                nursery.start_soon(_listen, stream, data)
                await _reply(stream, answer, asked.wire, len(self.requests))
                nursery.cancel_scope.cancel(reason="answered")

    def _notify(self) -> None:
        self._changed.set()
        self._changed = trio.Event()


class _Hangup(Exception):
    """The connection is over."""


async def _request(stream: trio.abc.Stream, data: bytearray) -> Asked | None:
    """The next request; None at the end of the connection."""
    while (end := data.find(b"\r\n\r\n")) < 0:
        if not await _more(stream, data):
            return None
    first, *lines = data[:end].decode("latin-1").split("\r\n")
    del data[: end + 4]
    method, path, _ = first.split(" ")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    length = int(headers.get("content-length", 0))
    while len(data) < length:
        if not await _more(stream, data):
            return None
    body = bytes(data[:length])
    del data[:length]
    return Asked(method, path.partition("?")[0], headers, json.loads(body) if body else None)


async def _more(stream: trio.abc.Stream, data: bytearray) -> bool:
    more = await stream.receive_some(_READ_AT_ONCE)
    data += more
    return bool(more)


async def _listen(stream: trio.abc.Stream, data: bytearray) -> None:
    while await _more(stream, data):
        pass
    raise _Hangup


async def _answer(stream: trio.abc.Stream, plain: Plain) -> None:
    body = plain.body if isinstance(plain.body, str) else json.dumps(plain.body)
    data = body.encode()
    kind = "text/plain" if isinstance(plain.body, str) else "application/json"
    headers = {"content-type": kind, "content-length": str(len(data)), **plain.headers}
    await stream.send_all(_head(plain.status, headers) + data)


async def _reply(stream: trio.abc.Stream, reply: Reply, wire: Wire, number: int) -> None:
    await trio.sleep(reply.head_after)
    await stream.send_all(_head(200, {"content-type": reply.content_type, "transfer-encoding": "chunked"}))
    for event in events(reply, wire, number):
        match event:
            case Put() | Sends():
                await _send(stream, lines_of(event, reply), reply.chunk)
                await trio.sleep(reply.seconds_per_event)
            case Pauses():
                await trio.sleep(event.seconds)
            case Breaks():
                raise _Hangup
    if reply.lingers:
        await trio.sleep_forever()
    await stream.send_all(b"0\r\n\r\n")


def _head(status: int, headers: Mapping[str, str]) -> bytes:
    lines = [f"HTTP/1.1 {status} Said", *(f"{name}: {value}" for name, value in headers.items())]
    return "\r\n".join([*lines, "", ""]).encode("latin-1")


def lines_of(event: Put | Pauses | Sends | Breaks, reply: Reply) -> bytes:
    """This event as the bytes that are sent."""
    if not isinstance(event, Put):
        return event.data if isinstance(event, Sends) else b""
    lines = [f"event: {event.name}"] if event.name else []
    lines += [f"data: {line}" for line in event.data.split("\n")]
    if reply.comments:
        lines.insert(0, ": still here")
    return "".join(line + reply.line_end for line in [*lines, ""]).encode()


async def _send(stream: trio.abc.Stream, data: bytes, size: int) -> None:
    """In HTTP chunks of at most `size` bytes, each of which is sent by itself."""
    size = size or max(1, len(data))
    for start in range(0, len(data), size):
        part = data[start : start + size]
        await stream.send_all(b"%x\r\n%s\r\n" % (len(part), part))
