"""A stage that listens on a port of 127.0.0.1, and fails as networks do. The clock is the real one.

server.cuts_after(sent=10)                     # in the middle of the next answer
server.at_request(3, act, done=False)          # in place of the third request from now on
async with server.away():                      # no program listens there
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial

import trio

from hermes_trio.platform import Traits
from hermes_trio.testing import ConnectionCutter, Stage, in_background

from .http_requests import BadRequest, HttpRequest, RequestReader


class HungUp(Exception):
    """The connection has ended, or the server ends it without an answer."""


@dataclass(frozen=True, slots=True)
class _AtRequest:
    number: int
    act: Callable[[], object]
    done: bool


class HttpStage(Stage):
    """A simulator that listens on a port."""

    def __init__(self, name: str, account: str, traits: Traits) -> None:
        super().__init__(name, account, traits)
        self.port = 0
        self.open = 0
        """Number of open connections."""
        self.requests = 0
        """Number of requests that count for `at_request`."""
        self.cutter = ConnectionCutter()
        self._at_request: _AtRequest | None = None
        self._listening = trio.CancelScope()
        self._listens, self._back = trio.Event(), trio.Event()
        self._back.set()

    @property
    def base_url(self) -> str:
        """Address of the server, for the configuration."""
        return f"http://127.0.0.1:{self.port}"

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[None]:
        """Listen on a free port while inside."""
        [listener] = await trio.open_tcp_listeners(0, host="127.0.0.1")
        self.port = listener.socket.getsockname()[1]
        async with in_background(partial(self._listen, listener)):
            yield

    # --- for tests ---

    def drop(self) -> None:
        """Close every connection now, and listen again."""
        self._listens = trio.Event()
        self._listening.cancel(reason="dropped by the test")

    async def listens(self) -> None:
        """Wait until it listens."""
        await self._listens.wait()

    @asynccontextmanager
    async def away(self) -> AsyncIterator[None]:
        """Stop listening while inside."""
        await self._listens.wait()
        self._back = trio.Event()
        self.drop()
        await self.until(lambda: self.open == 0)
        try:
            yield
        finally:
            self._back.set()
        await self._listens.wait()

    def cuts_after(self, *, sent: float = math.inf, received: float = math.inf) -> None:
        """Close the connection after this many more bytes were sent to the adapter, or received from it."""
        self.cutter.sent, self.cutter.received = sent, received

    def at_request(self, number: int, act: Callable[[], object], *, done: bool) -> None:
        """Call `act` at the n-th request from now on: instead of the request or, with `done`, after it took
        effect and before its answer is sent."""
        self._at_request = _AtRequest(self.requests + number, act, done)

    # --- for the simulator ---

    @abstractmethod
    async def answer(self, request: HttpRequest) -> bytes:
        """Return the answer to a request. Raises `HungUp` to end the connection without one."""

    async def take_over(self, request: HttpRequest, stream: trio.SocketStream, reader: RequestReader) -> bool:
        """Serve the rest of the connection in another protocol. Return False to stay with HTTP."""
        await trio.lowlevel.checkpoint()
        return False

    def count(self) -> Callable[[], object]:
        """Count a request. Return what `at_request` wants to be called after its effect. Raises `HungUp` if
        something else happened in place of the request."""
        self.requests += 1
        self.changed.set()
        acts = self._at_request if self._at_request and self._at_request.number == self.requests else None
        if acts is not None and not acts.done:
            acts.act()
            raise HungUp
        return (lambda: None) if acts is None else acts.act

    # --- connections ---

    async def _listen(self, listener: trio.SocketListener) -> None:
        while True:
            self._listens.set()
            with trio.CancelScope() as self._listening:
                await trio.serve_listeners(self._serve, [listener])
            await self._back.wait()
            [listener] = await trio.open_tcp_listeners(self.port, host="127.0.0.1")

    async def _serve(self, stream: trio.SocketStream) -> None:
        self.open += 1
        try:
            async with stream:
                await self._converse(stream)
        except* (trio.BrokenResourceError, HungUp, BadRequest):
            pass
        finally:
            self.open -= 1
            self.changed.set()

    async def _converse(self, stream: trio.SocketStream) -> None:
        reader = RequestReader(partial(self.cutter.receive_some, stream))
        while request := await reader.read():
            if await self.take_over(request, stream, reader):
                return
            async with trio.open_nursery() as nursery:
                # A client that hangs up during a long poll is noticed at once.
                nursery.start_soon(_until_hung_up, reader)
                answer = await self.answer(request)
                nursery.cancel_scope.cancel(reason="answered")
            await self.cutter.send_all(stream, answer)


async def _until_hung_up(reader: RequestReader) -> None:
    while await reader.more():
        pass
    raise HungUp
