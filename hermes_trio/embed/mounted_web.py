"""The page and the API of a gateway as a part of the program's own web application.

    web = hermes_trio.MountedWeb()
    app.mount("/hermes", web)                                     # Starlette, FastAPI: any ASGI application
    async with hermes_trio.open_gateway("home", web=web): ...     # for example in the lifespan

Each request runs in a nursery of the gateway, and the task of the server waits for it. So it ends with either
side: a server that cancels its task cancels the request, and the end of the gateway ends every request,
streams after their last event. Each message of a request crosses to the loop of the server and waits there
until the server has taken it, so a slow client slows down nobody else.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import trio
from starlette.types import Message, Receive, Scope, Send

from .. import __version__
from ..base.errors import ConfigInvalid
from ..config.schema import WebConfig
from ..gateway.ending.endings_table import MARGIN
from ..gateway.facade import RunningGateway
from ..log import Log
from ..web.app import Web
from ..web.http.auth import BASE, Auth, HostAuth, web_key
from ..web.http.browser_logins import BrowserLogins
from ..web.http.connection import Hangup
from ..web.http.gate import Gate
from ..web.http.http_errors import Refusal, refusal_response
from ..web.http.server import SHORTEST_KEY
from .asyncio_calls import AsyncioCalls, call_asyncio
from .guest_run import running_guest

log = Log(__name__)


class _Requests(Protocol):
    """The way of a request from the loop of its server to the gateway, and of its messages back."""

    async def run(self, request: Callable[[], Awaitable[None]]) -> None:
        """Run a request in the nursery of the gateway, and wait for its end."""

    async def on_host(self, call: Callable[[], Awaitable[Any]]) -> Any:
        """Call an async function of the server from a request."""


@dataclass(frozen=True, slots=True)
class _OnTrio:
    """The server runs on Trio."""

    nursery: trio.Nursery

    async def run(self, request: Callable[[], Awaitable[None]]) -> None:
        ended, scope = trio.Event(), trio.CancelScope()

        async def inside() -> None:
            try:
                with scope:
                    await request()
            finally:
                ended.set()

        self.nursery.start_soon(inside)
        try:
            await ended.wait()
        except trio.Cancelled:
            scope.cancel(reason="the server has cancelled the request")
            with trio.move_on_after(MARGIN, shield=True):
                await ended.wait()
            raise

    async def on_host(self, call: Callable[[], Awaitable[Any]]) -> Any:
        return await call()


@dataclass(frozen=True, slots=True)
class _OnAsyncio:
    """The server runs on asyncio, and Trio as a guest on its loop."""

    calls: AsyncioCalls

    async def run(self, request: Callable[[], Awaitable[None]]) -> None:
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - we are on asyncio
        try:
            await self.calls.call(request)
        except asyncio.CancelledError:  # noqa: ASYNC103 - a cancellation of ours, not of the task
            if task.cancelling():
                raise
            # The end of the gateway has cut the request, and the server closes its connection.

    async def on_host(self, call: Callable[[], Awaitable[Any]]) -> Any:
        async def calling() -> Any:
            return await call()

        return await call_asyncio(self.calls.loop, calling())


class MountedWeb:
    """The page and the API of one gateway, as an ASGI application to be mounted. While no gateway is open it
    answers 503."""

    def __init__(self, *, host_authenticates: bool = False) -> None:
        """With `host_authenticates` the program lets in only whom it knows, and the gateway asks nobody for
        its key: everybody who reaches it is its owner."""
        self._host_authenticates = host_authenticates
        self._open: tuple[_Requests, Gate] | None = None
        self._web: Web | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request of the server."""
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1000})
        if scope["type"] != "http":
            return
        inner = _below_mount(scope)
        if self._open is None:
            await refusal_response(_CLOSED, inner["path"])(scope, receive, send)
            return
        requests, app = self._open

        async def receive_here() -> Message:
            message: Message = await requests.on_host(receive)
            return message

        async def send_here(message: Message) -> None:
            try:
                await requests.on_host(lambda: send(message))
            except Exception as error:  # a server may raise anything when the client has gone
                raise Hangup from error

        async def request() -> None:
            try:
                await app(inner, receive_here, send_here)
            except* Hangup:
                pass
            except* Exception:
                log.error("request failed", path=inner["path"], exc_info=True)

        await requests.run(request)

    def login_path(self) -> str:
        """Return a path below the mount that logs a browser in, once and for some minutes. Do not log it."""
        assert self._web is not None, "no gateway is open"  # noqa: S101 - a mistake of the caller
        return self._web.link()

    async def door(
        self, gateway: RunningGateway, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        """Take requests until the work of the gateway is over and all listeners have the last event."""
        home, config, guest = gateway.home, gateway.home.config.web, running_guest()
        if not self._host_authenticates:
            _check_key(config)
        key = web_key(home.path, config)
        home.secrets.learn(key)
        cookie = f"hermes_trio_{hashlib.sha256(key.encode()).hexdigest()[:8]}"
        kind = HostAuth if self._host_authenticates else Auth
        auth = kind(key, config.host, cookie, home.world, BrowserLogins(home.database, home.world))
        self._web = Web(home.config, __version__)
        async with self._web.serving(gateway, auth) as opened, trio.open_nursery() as nursery:
            requests: _Requests = _OnTrio(nursery)
            if guest is not None:
                calls = AsyncioCalls(guest.loop)
                calls.open(nursery)
                requests = _OnAsyncio(calls)
            self._open = requests, opened.application
            try:
                task_status.started()
                await gateway.shutdown.work_over.wait()
            finally:
                self._open = None
            await home.journals.end_subscriptions()


def _below_mount(scope: Scope) -> Scope:
    """Return the request as our application sees it: at the root."""
    base = scope.get("root_path", "").rstrip("/")
    path = scope["path"]
    if base and (path == base or path.startswith(f"{base}/")):
        path = path[len(base) :] or "/"
    kept = ("type", "asgi", "http_version", "method", "scheme", "query_string", "headers")
    addresses = {name: _address(scope.get(name)) for name in ("client", "server")}
    inner = {name: scope[name] for name in kept if name in scope}
    return {**inner, **addresses, "path": path, "root_path": "", "extensions": {}, BASE: base}


def _address(named: Sequence[Any] | None) -> tuple[str, int] | None:
    """Return an address with its port as a number, which some servers give as text; None for a socket of the
    file system."""
    return (named[0], int(named[1])) if named and named[1] is not None else None


def _check_key(web: WebConfig) -> None:
    """Raise `ConfigInvalid` for a short key: other machines may reach the program."""
    if web.key is not None and len(web.key) < SHORTEST_KEY:
        raise ConfigInvalid(
            "web.key",
            f"it has fewer than {SHORTEST_KEY} characters, and whoever reaches the program can try keys",
            "Set it to a long random text, or leave it out: then the home has one in web.key.",
        )


_CLOSED = Refusal(
    503,
    "gateway_closed",
    "No gateway is open here.",
    "Try again when the program has opened its gateway.",
    {"Retry-After": "5"},
)
