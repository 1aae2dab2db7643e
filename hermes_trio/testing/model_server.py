"""A model server on this machine that sends prepared answers, in the form of OpenAI or of Anthropic, and
fails in every way in which a real one does.

    async with open_model_server() as server:
        server.answers(Reply().says("Hello."))                       # the next request; then what comes next
        server.answers(refused("openai", 429, "rate_limit_error", "Slowly.", retry_after="3"))
        ...                                                          # a model with base_url=server.openai_url
        server.requests[0].body                                      # the request as it arrived
        await server.until(lambda: server.open == 0)                 # no client is connected any more

`POST …/chat/completions` is answered in OpenAI's form, `POST …/messages` in Anthropic's, `GET …/models` with
the names in `models`. When no prepared answer is left, the answer is `otherwise`. Each answer may be a
function of the request. The server writes to plain sockets, so that no HTTP library changes what it is told
to send; benchmarks use it too.
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

from ..base.pulse import Pulse
from .model_replies import HangupStep, PauseStep, Plain, RawStep, Reply, Wire, WireEvent, WireStep, events
from .simulator import in_background

_READ_AT_ONCE = 1 << 16


@dataclass(frozen=True, slots=True)
class RecordedRequest:
    """A request as it arrived."""

    method: str
    path: str
    headers: Mapping[str, str]
    """Their names are in lower case."""
    body: Any
    """The decoded JSON; None for an empty body."""

    @property
    def wire(self) -> Wire:
        return "anthropic" if self.path.endswith("/messages") else "openai"


Answer = Reply | Plain
Answering = Answer | Callable[[RecordedRequest], Answer]


@asynccontextmanager
async def open_model_server(
    *, port: int = 0, models: tuple[str, ...] = ("test-model",)
) -> AsyncIterator[ModelServer]:
    """Run the server while inside."""
    listeners = await trio.open_tcp_listeners(port, host="127.0.0.1", backlog=1024)
    server = ModelServer(listeners[0].socket.getsockname()[1], models)
    async with in_background(partial(trio.serve_listeners, server.serve, listeners)):
        yield server


class ModelServer:
    """A model server behind a port."""

    def __init__(self, port: int, models: tuple[str, ...]) -> None:
        self.port, self.models = port, models
        self.requests: list[RecordedRequest] = []
        """Requests for an answer, in order."""
        self.lists: list[RecordedRequest] = []
        """Requests for the list of models, in order."""
        self.connections = 0
        """Number of connections ever made."""
        self.open = 0
        """Number of connections that are open."""
        self.otherwise: Answering = Reply().says("Hello.")
        self._answers: deque[Answering] = deque()
        self._changed = Pulse()

    @property
    def openai_url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    @property
    def anthropic_url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def answers(self, *answers: Answering) -> None:
        """Add answers to the queue; each request takes one."""
        self._answers += answers

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until the condition holds. It is checked after each change of the server's state."""
        while not condition():
            await self._changed.wait()

    async def serve(self, stream: trio.abc.Stream) -> None:
        """Serve one connection until it ends."""
        self.connections += 1
        self.open += 1
        self._changed.set()
        try:
            async with stream:
                await self._converse(stream)
        except* (trio.BrokenResourceError, _HungUp):
            pass
        finally:
            self.open -= 1
            self._changed.set()

    async def _converse(self, stream: trio.abc.Stream) -> None:
        data = bytearray()
        while asked := await _request(stream, data):
            if asked.method == "GET" and asked.path.endswith("/models"):
                self.lists.append(asked)
                listed = {"object": "list", "data": [{"id": name, "object": "model"} for name in self.models]}
                await _answer(stream, Plain(200, listed))
                continue
            self.requests.append(asked)
            self._changed.set()
            answer = self._answers.popleft() if self._answers else self.otherwise
            if callable(answer):
                answer = answer(asked)
            if isinstance(answer, Plain):
                await _answer(stream, answer)
                continue
            async with trio.open_nursery() as nursery:
                # A client that hangs up is noticed at once, also during a pause.
                nursery.start_soon(_listen, stream, data)
                await _reply(stream, answer, asked.wire, len(self.requests))
                nursery.cancel_scope.cancel(reason="answered")


class _HungUp(Exception):
    """The connection has ended."""


async def _request(stream: trio.abc.Stream, data: bytearray) -> RecordedRequest | None:
    """Read the next request; None at the end of the connection."""
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
    return RecordedRequest(method, path.partition("?")[0], headers, json.loads(body) if body else None)


async def _more(stream: trio.abc.Stream, data: bytearray) -> bool:
    more = await stream.receive_some(_READ_AT_ONCE)
    data += more
    return bool(more)


async def _listen(stream: trio.abc.Stream, data: bytearray) -> None:
    while await _more(stream, data):
        pass
    raise _HungUp


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
            case WireEvent() | RawStep():
                await _send(stream, lines_of(event, reply), reply.chunk)
                await trio.sleep(reply.seconds_per_event)
            case PauseStep():
                await trio.sleep(event.seconds)
            case HangupStep():
                raise _HungUp
    if reply.lingers:
        await trio.sleep_forever()
    await stream.send_all(b"0\r\n\r\n")


def _head(status: int, headers: Mapping[str, str]) -> bytes:
    lines = [f"HTTP/1.1 {status} Said", *(f"{name}: {value}" for name, value in headers.items())]
    return "\r\n".join([*lines, "", ""]).encode("latin-1")


def lines_of(event: WireStep, reply: Reply) -> bytes:
    """Return the bytes of an event as they are sent."""
    if not isinstance(event, WireEvent):
        return event.data if isinstance(event, RawStep) else b""
    lines = [f"event: {event.name}"] if event.name else []
    lines += [f"data: {line}" for line in event.data.split("\n")]
    if reply.comments:
        lines.insert(0, ": still here")
    return "".join(line + reply.line_end for line in [*lines, ""]).encode()


async def _send(stream: trio.abc.Stream, data: bytes, size: int) -> None:
    """Send HTTP chunks of at most `size` bytes, each in a call of its own."""
    size = size or max(1, len(data))
    for start in range(0, len(data), size):
        part = data[start : start + size]
        await stream.send_all(b"%x\r\n%s\r\n" % (len(part), part))
