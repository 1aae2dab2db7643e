"""The checks in front of the routes: the origin of every request, and the key and the sender of most.

A route needs the key or a log-in unless its line in the table says that it is open. The origin check covers
all of them: it refuses requests that another site made a browser send. The headers of each answer tell a
browser how it may use the answer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

from starlette.requests import Request
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from .auth import SAFE, Auth
from .http_errors import Refusal, refusal_response
from .owner import OwnerCheck
from .route_spec import RouteGroup, RouteSpec

_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "font-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
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

T = TypeVar("T")


class Gate:
    """The application in front of the router: checks the origin, and adds the security headers."""

    def __init__(self, app: ASGIApp, auth: Auth) -> None:
        self.app, self._auth = app, auth

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
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


@dataclass(frozen=True, slots=True)
class RouteGuard:
    """The checks of a single route: the key or a log-in, and the process that sent the request."""

    auth: Auth
    owner: OwnerCheck

    def routes(self, group: RouteGroup[T], handlers: T) -> list[Route]:
        """Return the routes of a group, answered by these handlers."""
        return [self._route(spec, handlers) for spec in group.specs]

    def _route(self, spec: RouteSpec[T], handlers: T) -> Route:
        async def endpoint(request: Request) -> ASGIApp:
            login = None if spec.is_open else self.auth.check(request)
            if not spec.is_open:
                harmless = spec.may_be_gone or spec.method in SAFE  # to a sender that has gone
                await self.owner.refuse_agents_processes(request, may_be_gone=harmless)
            app = await spec.handler(handlers, request)
            return app if login is None else self.auth.logins.answering(login, app)

        return Route(spec.path, endpoint, methods=[spec.method])
