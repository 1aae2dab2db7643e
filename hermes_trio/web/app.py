"""The web of one gateway: its door, which opens the server with the handlers of all routes."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial

import trio
from starlette.applications import Starlette

from ..config.schema import GatewayConfig
from ..gateway.commands.stop import stop_session
from ..gateway.facade import RunningGateway
from ..gateway.intake.requests import deliver, post
from ..gateway.operations.conversation_entry import Conversations
from ..gateway.operations.gateway_actions import LiveTerms, NotLive
from ..gateway.operations.run_state import Runs
from ..gateway.turn.attachments import keep_upload
from ..gateway.turn.questions import give_answer
from ..host.loop.worker import BatchTimes
from ..log import Log
from .api.admin_routes import AdminRoutes
from .api.api_platform import ApiPlatform
from .api.command_routes import CommandRoutes
from .api.event_routes import EventRoutes
from .api.file_routes import FileRoutes
from .api.health_routes import HealthRoutes
from .api.login_routes import LoginRoutes
from .api.message_routes import MessageRoutes
from .api.metrics import Metrics, MetricsRoutes
from .api.schedule_routes import ScheduleRoutes
from .api.session_changes import ChangeFeed, gateway_status, note_gateway, note_turns
from .api.session_routes import SessionRoutes
from .api.turn_routes import TurnRoutes
from .http.auth import Auth, web_key
from .http.browser_logins import BrowserLogins
from .http.gate import Gate, RouteGuard
from .http.http_errors import HANDLERS
from .http.openapi import DescriptionRoutes
from .http.owner import OwnerCheck
from .http.server import OpenListeners, listen, open_new_listeners, serve_connections
from .nodes.forwarding import Forwarding
from .nodes.peers import Peers, address_for_peers
from .openai.answer import Callers
from .openai.completions import CompletionRoutes
from .openai.responses import ResponseRoutes
from .openai.run_routes import RunRoutes
from .operation_responses import OPERATION_HANDLERS
from .page.page_files import PageRoutes
from .route_table import GROUPS, SPECS

log = Log(__name__)


@dataclass(frozen=True, slots=True)
class OpenDoor:
    """The server while it listens."""

    address: str
    """For example `http://127.0.0.1:8642`; empty if a program serves it."""
    auth: Auth
    application: Gate
    peers: Peers
    """The other gateways that share the store."""

    def link(self) -> str:
        """Return an address that logs a browser in, once and for some minutes; a path if a program serves
        the page. Do not log it."""
        return f"{self.address}/login?token={self.auth.new_link_token()}"


LiveRestart = Callable[[RunningGateway, LiveTerms], Awaitable[int]]
"""Starts a process that takes the place of this gateway: `RestartLive` of a gateway that is not open yet."""


async def never_live(gateway: RunningGateway, terms: LiveTerms) -> int:
    """Refuse: only the program that runs the gateway knows how it is started."""
    await trio.lowlevel.checkpoint()
    raise NotLive("this gateway is a part of another program")


class Web:
    """The web of one gateway. The gateway is given its `platform` and its `door`."""

    def __init__(
        self,
        config: GatewayConfig,
        version: str = "",
        *,
        owns_process: bool = False,
        long_steps: BatchTimes | None = None,
        open_listeners: OpenListeners = open_new_listeners,
        restart_live: LiveRestart = never_live,
    ) -> None:
        """With `owns_process` the process belongs to the gateway alone, so each child process is the
        agent's. `long_steps` are the steps that held the event loop for long, if somebody notes them."""
        self.platform = ApiPlatform()
        self.callers = Counter[str]()
        """The number of clients that wait for the answer of each run."""
        self._config, self._version, self._owns_process = config.web, version, owns_process
        self._long_steps, self._open_listeners = long_steps, open_listeners
        self._restart_live = restart_live
        self._open: OpenDoor | None = None

    @property
    def address(self) -> str:
        """The address of the server; empty until the door is open."""
        return self._open.address if self._open is not None else ""

    @property
    def opened(self) -> OpenDoor:
        """The server. Available as soon as the door is open."""
        assert self._open is not None, "the door is not open"  # noqa: S101 - a mistake of the caller
        return self._open

    async def door(
        self, gateway: RunningGateway, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        """Listen until the work of the gateway is over and all listeners have the last event."""
        home, shutdown = gateway.home, gateway.shutdown
        key = web_key(home.path, self._config)
        listeners = await listen(self._config, self._open_listeners)
        home.secrets.learn(key)  # the key may have been made just now
        port = listeners[0].socket.getsockname()[1]
        host = f"[{self._config.host}]" if ":" in self._config.host else self._config.host
        logins = BrowserLogins(home.database, home.world)
        auth = Auth(key, self._config.host, f"hermes_trio_{port}", home.world, logins)
        async with (
            self.serving(gateway, auth, f"http://{host}:{port}") as door,
            trio.open_nursery() as nursery,
        ):
            closed = trio.Event()
            nursery.start_soon(serve_connections, listeners, door.application, closed)
            log.info("listening", address=door.address)
            home.board.set(web=door.address, version=self._version)
            task_status.started()
            await shutdown.work_over.wait()
            closed.set()
            await home.journals.end_subscriptions()

    @asynccontextmanager
    async def serving(
        self, gateway: RunningGateway, auth: Auth, address: str = ""
    ) -> AsyncIterator[OpenDoor]:
        """Yield the application with all routes; its events are noted during the block."""
        home, running = gateway.home, gateway.work.running
        await auth.logins.load()
        home.secrets.learn(auth.cluster_key)
        warning = gateway.work.background.commands.warning
        changes = ChangeFeed(
            partial(
                gateway_status,
                home.board,
                gateway.control,
                running,
                home.world,
                warning,
                gateway.work.agent,
            )
        )
        peers = Peers(home.database, home.owner, gateway.node.look)
        forwarding = Forwarding(peers, auth.cluster_key, home.life)
        handlers = self._handlers(gateway, auth, changes, forwarding)
        with home.worker("sender") as runner:
            guard = RouteGuard(auth, OwnerCheck(runner, children=self._owns_process), forwarding.by_path)
            self._open = OpenDoor(address, auth, application(guard, handlers), peers)
            await peers.tell_address(address_for_peers(home.config.database.address, address))
            await peers.read()
            async with trio.open_nursery() as noting:
                noting.start_soon(peers.follow)
                if peers.are_possible:
                    noting.start_soon(auth.logins.follow, peers.look)
                noting.start_soon(note_turns, changes, running)
                noting.start_soon(note_gateway, changes, home.board)
                noting.start_soon(changes.beat)
                yield self._open
                noting.cancel_scope.cancel(reason="the server is closed")

    def link(self) -> str:
        """Return an address that logs a browser in, once and for some minutes. Do not log it."""
        return self.opened.link()

    def _handlers(
        self, gateway: RunningGateway, auth: Auth, changes: ChangeFeed, forwarding: Forwarding
    ) -> Mapping[type, object]:
        """Return the handlers of each group of routes. Only this function hands out parts of the gateway."""
        home, chats, work, shutdown = gateway.home, gateway.chats, gateway.work, gateway.shutdown
        config, world, database = home.config, home.world, home.database
        journals, reader, board = home.journals, home.reader, home.board
        control, running, connections = shutdown.control, work.running, chats.connections
        post_message, deliver_request = partial(post, gateway.mailbox), partial(deliver, gateway.mailbox)
        answer_question = partial(give_answer, home)
        keep = partial(keep_upload, home)
        open_questions, stop_and_drop = running.open_questions, partial(stop_session, home, running)
        runs = Runs(database, world, journals, running, home.owner, gateway.node.look)
        callers, elsewhere = Callers(runs, shutdown.work_over, self.callers), forwarding.to_session
        conversations = Conversations(
            database,
            config,
            world,
            control,
            connections,
            deliver_request,
            changes.note,
            home.path,
            keep,
            home.owner,
        )
        metrics = metrics_of(gateway, self._long_steps)
        handlers = (
            PageRoutes(auth),
            LoginRoutes(auth),
            HealthRoutes(
                self._version,
                home.path,
                database,
                home.life,
                board,
                control,
                running,
                work.background.commands.warning,
            ),
            MetricsRoutes(metrics, auth),
            SessionRoutes(home, work, open_questions, changes),
            MessageRoutes(
                database,
                reader,
                config,
                world,
                control,
                connections,
                post_message,
                deliver_request,
                changes,
                home.path,
                home.owner,
            ),
            FileRoutes(home.path, keep),
            TurnRoutes(database, open_questions, answer_question, stop_and_drop, changes),
            CommandRoutes(database, config, work.sessions, connections, gateway.commands.obey, changes),
            ScheduleRoutes(database, config, world, connections, home.schedule),
            EventRoutes(database, journals, control, home.life, changes, forwarding),
            CompletionRoutes(config, runs, conversations, callers, elsewhere),
            ResponseRoutes(config, runs, conversations, callers, elsewhere),
            RunRoutes(runs, conversations, answer_question, elsewhere),
            DescriptionRoutes(SPECS, self._version),
            AdminRoutes(
                home.path,
                world,
                control,
                running,
                shutdown.supervised_by,
                gateway.stop,
                partial(self._restart_live, gateway),
                self.link,
            ),
        )
        return {type(each): each for each in handlers}


def application(guard: RouteGuard, handlers: Mapping[type, object]) -> Gate:
    """Return the application with all routes of the table, behind the gate."""
    routes = [route for group in GROUPS for route in guard.routes(group, handlers[group.handlers])]
    errors = {**HANDLERS, **OPERATION_HANDLERS}
    return Gate(Starlette(routes=routes, exception_handlers=errors), guard.auth, errors)


def metrics_of(gateway: RunningGateway, long_steps: BatchTimes | None = None) -> Metrics:
    """Return the metrics of a gateway."""
    return Metrics(
        gateway.home.database,
        gateway.home.life,
        gateway.home.journals,
        gateway.work.running,
        gateway.control,
        outcomes=gateway.work.outcomes,
        connections=gateway.chats.connections,
        long_steps=long_steps,
    )
