"""The checks in front of the routes: the origin of every request, and the key and the sender of most.

A route needs the key or a log-in unless its line in the table says that it is open. The origin check covers
all of them: it refuses requests that another site made a browser send. The headers of each answer tell a
browser how it may use the answer.

The router finds the handler of a request, and is left before the answer is sent. An answer may last as long
as a turn: the request with its body, and the frames of the router, are not kept in memory meanwhile.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ...state.tables.logins import Login
from .auth import SAFE, Auth
from .http_errors import Refusal, on_bug, refusal_response
from .owner import OwnerCheck
from .route_spec import RouteGroup, RouteSpec

_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; "
    "connect-src 'self'; font-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'self'; "
    "frame-ancestors 'none'"
)
SECURITY_HEADERS = {
    b"content-security-policy": _POLICY.encode(),
    b"x-content-type-options": b"nosniff",
    b"x-frame-options": b"DENY",
    b"referrer-policy": b"no-referrer",
    b"cross-origin-opener-policy": b"same-origin",
    b"cross-origin-resource-policy": b"same-origin",
    b"permissions-policy": b"camera=(), geolocation=(), microphone=()",
    b"cache-control": b"no-store",
}

ANSWER = "hermes_trio.answer"
"""The key of the ASGI scope for the answer that a handler has returned."""

T = TypeVar("T")
Here = Callable[[], Awaitable[ASGIApp]]
"""The handler of a request in this gateway."""
Elsewhere = Callable[[Request, Here | None], Awaitable[ASGIApp | None]]
"""Returns the answer of another gateway to a request that is for it; None for a request that is not. A
handler that is given answers if the other gateway cannot."""
ErrorHandlers = Mapping[type[Exception], Callable[[Request, Exception], Awaitable[Response]]]


class Gate:
    """The application around the router: checks the origin, adds the security headers, and sends the answer
    to which the router has led."""

    def __init__(self, app: ASGIApp, auth: Auth, error_handlers: ErrorHandlers) -> None:
        """`error_handlers` answer the errors of an answer that has not begun; the router's own do so for the
        errors of a handler."""
        self.app, self._auth, self._error_handlers = app, auth, error_handlers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return

        has_begun = False

        async def send_with_headers(message: Message) -> None:
            nonlocal has_begun
            if message["type"] == "http.response.start":
                has_begun = True
                given = {name.lower() for name, _ in message["headers"]}
                more = [pair for pair in SECURITY_HEADERS.items() if pair[0] not in given]
                message = {**message, "headers": [*message["headers"], *more]}
            await send(message)

        app = self.app
        try:
            self._auth.check_origin(Request(scope))
        except Refusal as refusal:
            app = refusal_response(refusal, scope["path"])
        await app(scope, receive, send_with_headers)
        answer: ASGIApp | None = scope.pop(ANSWER, None)
        if answer is None:  # the router has sent an error
            return
        try:
            await answer(scope, receive, send_with_headers)
        except Exception as error:
            if has_begun:
                raise
            handler = next(filter(None, map(self._error_handlers.get, type(error).__mro__)))
            # If this is cancelled, nobody waits for the answer any more.
            response = await handler(Request(scope), error)  # noqa: ASYNC120
            await response(scope, receive, send_with_headers)  # noqa: ASYNC120
            if handler is on_bug:
                raise


@dataclass(frozen=True, slots=True)
class RouteGuard:
    """The checks of a single route: the key or a log-in, the process that sent the request, and the gateway
    that has to answer it."""

    auth: Auth
    owner: OwnerCheck
    elsewhere: Elsewhere

    def routes(self, group: RouteGroup[T], handlers: T) -> list[Route]:
        """Return the routes of a group, answered by these handlers."""
        return [self._route(spec, handlers) for spec in group.specs]

    def _route(self, spec: RouteSpec[T], handlers: T) -> Route:
        async def endpoint(request: Request) -> ASGIApp:
            login = None if spec.is_open else await self._let_in(request)
            if not spec.is_open:
                harmless = spec.may_be_gone or spec.method in SAFE  # to a sender that has gone
                await self.owner.refuse_agents_processes(request, may_be_gone=harmless)
            here = partial(spec.handler, handlers, request)
            app = None
            if not (spec.is_open or spec.anywhere):
                app = await self.elsewhere(request, here if spec.method in SAFE else None)
            if app is None:
                app = await here()
            request.scope[ANSWER] = app if login is None else self.auth.logins.answering(login, app)
            return _sent_by_gate

        return Route(spec.path, endpoint, methods=[spec.method])

    async def _let_in(self, request: Request) -> Login | None:
        """Return the log-in of a request; None if it has the key. Raises `Refusal`. A browser may have logged
        in at another gateway that shares the store and the key."""
        try:
            return self.auth.check(request)
        except Refusal:
            if not self.auth.has_unknown_login(request):
                raise
        await self.auth.logins.load()
        return self.auth.check(request)


async def _sent_by_gate(scope: Scope, receive: Receive, send: Send) -> None:
    """Send nothing: the gate sends the answer, after the router is left."""
