"""A Bot API server on this machine: Telegram as an adapter sees it, with people that are driven by a test.

    async with open_bot_api() as telegram:
        ...                                            # an adapter with telegram.token and telegram.base_url
        await telegram.says("hello")                   # returns once getUpdates has confirmed it
        await telegram.until(lambda: telegram.chat("42").last == "Hello!")
        telegram.fails("send", bad("message thread not found"))
        telegram.loses_answer()                        # the next send takes effect, and its answer is lost
        telegram.answers("getUpdates", ApiError(502, "Bad Gateway"))
        telegram.cuts_after(sent=10)                   # in the middle of the next answer
        async with telegram.away():                    # no program listens there

It speaks HTTP on 127.0.0.1 and behaves like the real server wherever an adapter could depend on it: only the
next offset confirms an update, a second poll ends the first one, markup is checked by the rules of the
server, the length of a text is counted in UTF-16 units. The clock is the real one.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import trio

from hermes_trio.platform import CredentialsRefused, PlatformError
from hermes_trio.testing import ConnectionCutter, in_background

from .bot_api_http import BadRequest, HttpRequest, RequestReader, response
from .bot_api_methods import METHODS, ApiError, answer_of, bad
from .bot_api_webhook import bring
from .bot_state import BotState


@dataclass(frozen=True, slots=True)
class ApiCall:
    """A call of an adapter."""

    method: str
    params: Mapping[str, Any]


@asynccontextmanager
async def open_bot_api(name: str = "telegram", *, account: str = "main") -> AsyncIterator[BotApi]:
    """Run the server while inside."""
    [listener] = await trio.open_tcp_listeners(0, host="127.0.0.1")
    api = BotApi(name, account, listener.socket.getsockname()[1])
    async with in_background(partial(api.listen, listener)), in_background(partial(bring, api)):
        yield api


class BotApi(BotState):
    """A Bot API server that listens on a port."""

    def __init__(self, name: str, account: str, port: int) -> None:
        super().__init__(name, account)
        self.port = port
        self.asked: list[ApiCall] = []
        """Calls in their order."""
        self.open = 0
        """Number of open connections."""
        self._cutter = ConnectionCutter()
        self._at_request: _AtRequest | None = None
        self._answers: dict[str, deque[ApiError | bytes]] = {}
        self._listening = trio.CancelScope()
        self._listens, self._back = trio.Event(), trio.Event()
        self._back.set()

    @property
    def base_url(self) -> str:
        """Address of the server, for the configuration."""
        return f"http://127.0.0.1:{self.port}"

    # --- for tests ---

    def answers(self, method: str, *answers: ApiError | bytes) -> None:
        """Prepare the answers to the next calls of a method, which take no effect; bytes are no JSON."""
        self._answers.setdefault(method.lower(), deque()).extend(answers)

    def drop(self) -> None:
        """Close every connection now."""
        self._listening.cancel(reason="dropped by the test")
        self.bringing.cancel(reason="dropped by the test")

    @asynccontextmanager
    async def away(self) -> AsyncIterator[None]:
        """Stop listening while inside."""
        await self._listens.wait()
        self._back, self._listens = trio.Event(), trio.Event()
        self.drop()
        await self.until(lambda: self.open == 0)
        try:
            yield
        finally:
            self._back.set()
        await self._listens.wait()

    def cuts_after(self, *, sent: float = math.inf, received: float = math.inf) -> None:
        """Close the connection after this many more bytes were sent to the adapter, or received from it."""
        self._cutter.sent, self._cutter.received = sent, received

    def at_request(self, number: int, act: Callable[[], object], *, done: bool) -> None:
        """Call `act` at the n-th request from now on: instead of the request or, with `done`, after it took
        effect and before its answer is sent."""
        self._at_request = _AtRequest(len(self.asked) + number, act, done)

    # --- connections ---

    async def listen(self, listener: trio.SocketListener) -> None:
        """Accept connections, except while away."""
        while True:
            self._listens.set()
            with trio.CancelScope() as self._listening:
                await trio.serve_listeners(self.serve, [listener])
            await self._back.wait()
            [listener] = await trio.open_tcp_listeners(self.port, host="127.0.0.1")

    async def serve(self, stream: trio.SocketStream) -> None:
        """Serve one connection until it ends."""
        self.open += 1
        try:
            async with stream:
                await self._converse(stream)
        except* (trio.BrokenResourceError, _HungUp, BadRequest):
            pass
        finally:
            self.open -= 1
            self.changed.set()

    async def _converse(self, stream: trio.SocketStream) -> None:
        reader = RequestReader(partial(self._cutter.receive_some, stream))
        while request := await reader.read():
            async with trio.open_nursery() as nursery:
                # A client that hangs up during a long poll is noticed at once.
                nursery.start_soon(_until_hung_up, reader)
                answer = await self._answer(request)
                nursery.cancel_scope.cancel(reason="answered")
            await self._cutter.send_all(stream, answer)

    async def _answer(self, request: HttpRequest) -> bytes:
        try:
            return await self._result(request)
        except PlatformError as error:
            answer = answer_of(error)
            if answer is None:
                raise _HungUp from error
            return response(answer.code, answer.body)
        except KeyError as error:
            return response(400, bad(f"parameter {error} is required").body)

    async def _result(self, request: HttpRequest) -> bytes:
        head, _, name = request.path.removeprefix("/").partition("/")
        if head == "file":
            file_id = name.rpartition("/")[2]
            if file_id not in self.files or file_id in self.lost_files:
                raise ApiError(404, "Not Found")
            return response(200, self.files[file_id])
        self.asked.append(ApiCall(name, request.params))
        self.changed.set()
        acts = self._at_request if self._at_request and self._at_request.number == len(self.asked) else None
        if acts is not None and not acts.done:
            acts.act()
            raise _HungUp
        if not self.lets_in or head != f"bot{self.token}":
            raise CredentialsRefused(self.name) if head.startswith("bot") else ApiError(404, "Not Found")
        if prepared := self._answers.get(name.lower()):
            answer = prepared.popleft()
            if isinstance(answer, bytes):
                return response(502, answer)
            raise answer
        if name.lower() not in METHODS:
            raise ApiError(404, "Not Found: method not found")
        result = await METHODS[name.lower()](self, request)
        if acts is not None:
            acts.act()
        return response(200, {"ok": True, "result": result})


@dataclass(frozen=True, slots=True)
class _AtRequest:
    number: int
    act: Callable[[], object]
    done: bool


class _HungUp(Exception):
    """The connection has ended."""


async def _until_hung_up(reader: RequestReader) -> None:
    while await reader.more():
        pass
    raise _HungUp
