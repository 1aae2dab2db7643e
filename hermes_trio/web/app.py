"""The web of one gateway: the table of its routes, the gate in front of them, and the door they are behind.

Every route needs the key or a log-in, unless the table says that it is open. The gate is in front of all
of them: it refuses what a browser was made to ask, and says with each answer what a browser may do with it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING

import msgspec
import trio
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ..config.schema import GatewayConfig
from ..log import Log
from .api import (
    command_routes,
    event_stream,
    health,
    login_routes,
    message_routes,
    metrics,
    run_routes,
    session_routes,
)
from .api.api_platform import ApiPlatform
from .api.session_changes import Changes, note_turns
from .http import openapi
from .http.auth import SAFE, Auth, LoginRequest, web_key
from .http.http_errors import HANDLERS, Refusal, answer, told
from .http.owner import refuse_agents_processes
from .http.server import listen, serve_connections
from .openai import completions
from .openai.completion_request import ChatCompletion
from .page import page_files

if TYPE_CHECKING:
    from ..gateway.facade import Gateway

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

Handler = Callable[["Web", Request], Awaitable[ASGIApp]]

log = Log(__name__)


class Web:
    """What the handlers share. A gateway is given its `platform` and its `door`."""

    def __init__(self, config: GatewayConfig, version: str = "", *, owns_process: bool = False) -> None:
        """`owns_process` says that the process is the gateway's alone, so that its agent runs every child."""
        self.version, self.owns_process = version, owns_process
        self.platform = ApiPlatform()
        self.address = ""
        """Where it listens, once it does: `http://127.0.0.1:8642`."""
        self._config = config.web
        self.gateway: Gateway
        self.auth: Auth
        self.metrics: metrics.Metrics
        self.changes = Changes()
        self.frames = event_stream.Frames()
        self.entering = trio.Lock()
        """Held while it is found out in which session a request is said."""
        self.callers = Counter[str]()
        """How many clients wait for the answer of a run."""
        self.pages = page_files.Pages()

    async def door(
        self, gateway: Gateway, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        """Listen until the gateway's work is over, and whoever watches has seen the end of it."""
        key = web_key(gateway.home.path, self._config)
        listeners = await listen(self._config)
        gateway.home.secrets.learn(key)  # which was perhaps made just now
        port = listeners[0].socket.getsockname()[1]
        host = f"[{self._config.host}]" if ":" in self._config.host else self._config.host
        self.address = f"http://{host}:{port}"
        self.gateway, self.metrics = gateway, metrics.Metrics(gateway)
        browsers = login_routes.Logins(gateway.home.database, gateway.home.world)
        await browsers.load()
        self.auth = Auth(key, self._config.host, port, gateway.home.world, browsers)
        closed = trio.Event()
        async with trio.open_nursery() as noting:
            noting.start_soon(note_turns, gateway, self.changes)
            noting.start_soon(self.changes.beat)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(serve_connections, listeners, application(self), closed)
                log.info("listening", address=self.address)
                gateway.home.board.set(web=self.address)
                task_status.started()
                await gateway.shutdown.work_over.wait()
                closed.set()
                await gateway.home.journals.nothing_more()
            noting.cancel_scope.cancel(reason="nobody listens any more")

    def link(self) -> str:
        """An address that lets somebody in, once and for some minutes. It must not be logged."""
        return f"{self.address}/login?token={self.auth.new_link_token()}"


def application(web: Web) -> ASGIApp:
    """All there is to ask for."""
    return Gate(Starlette(routes=routes(web), exception_handlers=HANDLERS), web)


def routes(web: Web) -> list[openapi.Entry]:
    """The table."""
    is_open, closed = partial(_route, web, is_open=True), partial(_route, web)
    return [
        is_open("GET", "/", page_files.page),
        is_open("GET", "/page/{name}", page_files.part),
        is_open("GET", "/health", health.health),
        is_open("GET", "/ready", health.ready),
        is_open("GET", "/metrics", metrics.metrics),
        is_open("GET", "/login", _log_in_by_link),
        is_open("POST", "/login", _log_in_by_key, takes=LoginRequest),
        closed("GET", "/health/detailed", health.detailed),
        closed("GET", "/api/sessions", session_routes.every),
        closed("POST", "/api/sessions", session_routes.make, takes=session_routes.NewSession),
        closed("GET", "/api/sessions/{session_id}", session_routes.one),
        closed("PATCH", "/api/sessions/{session_id}", session_routes.change, takes=session_routes.Change),
        closed("DELETE", "/api/sessions/{session_id}", session_routes.delete),
        closed("GET", "/api/sessions/{session_id}/messages", message_routes.every),
        closed(
            "POST", "/api/sessions/{session_id}/messages", message_routes.say, takes=message_routes.NewMessage
        ),
        closed("POST", "/api/sessions/{session_id}/stop", message_routes.stop_turn, may_be_gone=True),
        closed(
            "POST", "/api/sessions/{session_id}/commands", command_routes.obey, takes=command_routes.Typed
        ),
        closed(
            "POST",
            "/api/sessions/{session_id}/answers",
            message_routes.answer_request,
            takes=message_routes.Answer,
        ),
        closed("GET", "/api/events", event_stream.events),
        closed("GET", "/v1/models", completions.models),
        closed("GET", "/v1/models/{model:path}", completions.model),
        closed("POST", "/v1/chat/completions", completions.complete, takes=ChatCompletion),
        closed("GET", "/v1/capabilities", run_routes.capabilities),
        closed("POST", "/v1/runs", run_routes.begin, takes=run_routes.NewRun),
        closed("GET", "/v1/runs/{run_id}", run_routes.one),
        closed("GET", "/v1/runs/{run_id}/events", run_routes.events),
        closed("POST", "/v1/runs/{run_id}/stop", run_routes.stop, may_be_gone=True),
        closed("POST", "/v1/runs/{run_id}/approval", run_routes.approve, takes=run_routes.Choice),
        closed("GET", "/api/logins", login_routes.every),
        closed("DELETE", "/api/logins/{login_id}", login_routes.end),
        closed("GET", "/openapi.json", _description),
        closed("POST", "/api/admin/link", _new_link),
        closed("POST", "/api/admin/stop", health.stop, takes=health.Ask),
        closed("POST", "/api/admin/restart", health.restart, takes=health.Ask),
        closed("POST", "/api/admin/drain", health.drain, takes=health.Hold),
    ]


def _route(
    web: Web,
    method: str,
    path: str,
    handler: Handler,
    *,
    takes: type[msgspec.Struct] | None = None,
    is_open: bool = False,
    may_be_gone: bool = False,
) -> openapi.Entry:
    """A line of the table. With `may_be_gone` a client on this machine need not wait for the answer."""

    async def endpoint(request: Request) -> ASGIApp:
        login = None if is_open else web.auth.check(request)
        if not is_open and method not in SAFE:
            children, worker = web.owns_process, web.gateway.home.worker
            await refuse_agents_processes(request, worker, children=children, may_be_gone=may_be_gone)
        app = await handler(web, request)
        return app if login is None else web.auth.logins.answering(login, app)

    return openapi.Entry(method, path, endpoint, handler=handler, takes=takes, is_open=is_open)


async def _description(web: Web, request: Request) -> ASGIApp:
    """`GET /openapi.json`: this table."""
    return answer(openapi.description(routes(web), web.version))


async def _new_link(web: Web, request: Request) -> ASGIApp:
    """`POST /api/admin/link`: a link that lets a browser in, once and within ten minutes."""
    return answer({"link": web.link()}, 201)


async def _log_in_by_link(web: Web, request: Request) -> ASGIApp:
    """`GET /login?token=`: let a browser in for the link that `run` or `link` has printed. Without a token,
    the page on which the key is asked for."""
    if "token" not in request.query_params:
        response = web.pages.part("login.html").answer(request)
        response.headers["cache-control"] = "no-store"
        return response
    try:
        return await web.auth.log_in_by_link(request)
    except Refusal as refusal:
        if "text/html" not in request.headers.get("accept", ""):
            raise
        return web.pages.part("login.html").answer(request, refusal.status)


async def _log_in_by_key(web: Web, request: Request) -> ASGIApp:
    """`POST /login` `{key}`: let a browser in for the key, with a cookie and the other half of it in the
    header `X-Hermes-Page` of the answer."""
    return await web.auth.log_in_by_key(request)


class Gate:
    """In front of every route."""

    def __init__(self, app: ASGIApp, web: Web) -> None:
        self._app, self._web = app, web

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                given = {name.lower() for name, _ in message["headers"]}
                more = [pair for pair in SECURITY_HEADERS.items() if pair[0] not in given]
                message = {**message, "headers": [*message["headers"], *more]}
            await send(message)

        app = self._app
        try:
            self._web.auth.check_origin(Request(scope))
        except Refusal as refusal:
            app = told(refusal, scope["path"])
        await app(scope, receive, send_with_headers)
