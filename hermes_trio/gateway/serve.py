"""The tree of lifetimes. Indentation is the order of opening; leaving is the reverse. No list of teardown
steps exists anywhere."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager, ExitStack, asynccontextmanager
from dataclasses import KW_ONLY, dataclass, field
from functools import partial
from pathlib import Path

import trio

from ..base.errors import HomeUnusable, gateway_errors
from ..base.pulse import Wakeup
from ..base.world import World
from ..config.known_secrets import masking_of
from ..config.schema import GatewayConfig
from ..host.home.home_lock import HomeLock, locked_home
from ..host.home.markers import RESTART_NOTIFY, consume, write_restart_pending
from ..host.home.state_file import GatewayState, PlatformState
from ..host.home.status_board import StatusBoard, keep_status
from ..host.loop.worker import Worker, worker_thread
from ..host.processes.guard import Guard, open_guard
from ..host.processes.leftovers import end_leftovers
from ..journal.chosen_shelf import shelf_of
from ..journal.session_reader import SessionReader
from ..journal.writer import open_journals
from ..log import Log, log_masked_by
from ..masking.redaction import KnownSecrets
from ..platform.contract import Adapter
from ..state.chosen_store import engine_of
from ..state.db.database import OpenEngine, open_database
from ..state.db.engine import Db
from ..state.rules import settle
from ..state.rules.store import SessionStore
from ..state.tables import dead_chats, processes
from ..tools.sandbox.available import choose
from .commands.obey import Commands
from .drain import Drain, heed_hold, serving_state, store_report
from .ending.control import Control
from .ending.endings_table import MARGIN, Cause, Ending, Supervisor
from .ending.shutdown import Shutdown
from .ending.triggers import end_with_database
from .facade import RunningGateway
from .home.heartbeat import send_heartbeats
from .home.housekeeping import keep_house
from .home.open_home import Home
from .intake.mailbox import Mailbox
from .links.access import Access
from .links.link import Connection, keep_connected
from .nodes.begun_life import begin_life
from .nodes.hints import hear_hints
from .nodes.lease import Lease, Node, node_of
from .nodes.others import hold_role, look_after_own_chats, watch_others
from .outbound.announcements import owe_return_after_crash, owe_stuck
from .outbound.chats import Address, Chats, home_channels_of
from .outbound.gone_chats import GoneChats
from .outbound.rows import Chat
from .processes.command import ChooseSandbox, CommandRunner, open_commands
from .router import Router
from .schedule import keep_schedule
from .session.work import Work
from .startup.catch_up import CatchUp
from .startup.former_turns import end_former_turns
from .startup.original_import import import_sessions
from .turn.agent_function import Agent, AnyAgent, checked_agent

FLUSH_WITHIN = 2.0
"""Seconds for the lanes to send what can be sent when the work is over."""

Door = Callable[..., Awaitable[None]]
"""Another way in than a platform. It is called with the `RunningGateway` and a `task_status`, which it tells
when it is open. When `shutdown.work_over` is set it sends its last answers and returns."""

Guarded = Callable[[], AbstractAsyncContextManager[Guard | None]]
"""Opens the guard of the child processes; a gateway that starts none may be given one that yields None."""

log = Log(__name__)


@dataclass(frozen=True, slots=True)
class Setup:
    """The home of a gateway, its configuration, and everything that is plugged into it."""

    path: Path
    config: GatewayConfig
    _: KW_ONLY
    agent: AnyAgent
    adapters: Sequence[Adapter]
    doors: Sequence[Door] = ()
    world: World = field(default_factory=World)
    worker: Worker = worker_thread
    """Runs the blocking work of the store and the journals."""
    open_engine: OpenEngine | None = None
    """Opens the store. Left out: the one of the configuration."""
    guarded: Guarded = open_guard
    locked: Callable[[Path], AbstractContextManager[HomeLock]] = locked_home
    """Locks the home; a caller that holds the lock for several lives returns it."""
    choose_sandbox: ChooseSandbox = choose
    node: Node | None = None
    """Left out: as the configuration of the database says."""


async def serve(
    setup: Setup,
    *,
    control: Control | None = None,
    supervised_by: Supervisor = Supervisor.NONE,
    task_status: trio.TaskStatus[RunningGateway] = trio.TASK_STATUS_IGNORED,
) -> Ending:
    """Run a gateway until its end is requested, and return the ending. With `nursery.start` the caller gets
    the `RunningGateway` as soon as its doors are open."""
    path, config, world, worker = setup.path, setup.config, setup.world, setup.worker
    shutdown = Shutdown(control or Control(), supervised_by)
    control = shutdown.control
    if not isinstance(setup.agent, AbstractAsyncContextManager):
        checked_agent(setup.agent)  # before anything is opened
    with ExitStack() as masked, setup.locked(path) as lock, worker("status") as status_runner:
        secrets = KnownSecrets(masking_of(path, config, os.environ))
        masked.enter_context(log_masked_by(secrets))
        board = StatusBoard(lock.process, world.new_id(), world)
        board.set(grace=config.agent.restart_drain_timeout)
        async with trio.open_nursery() as outermost:
            outermost.start_soon(keep_status, board, path, status_runner, lock)
            life = world.new_id()
            async with (
                _failed_start_noted(board),
                open_database(
                    path / "gateway.db",
                    world,
                    worker=worker,
                    close_by=lambda: control.end_by - 0.5,
                    open_engine=setup.open_engine or engine_of(config.database),
                ) as database,
                open_journals(
                    path / "journal",
                    world,
                    fsync=config.journal.fsync,
                    worker=worker,
                    close_by=lambda: control.end_by - 1.0,
                    shelf=shelf_of(path, config.database, world, life),
                ) as journals,
                setup.guarded() as guard,
                _opened(setup.agent, control) as agent,
            ):
                node = setup.node or node_of(path, config.database, world)
                home = Home(
                    path=path,
                    config=config,
                    world=world,
                    life=life,
                    owner=life if node.shares else None,
                    database=database,
                    journals=journals,
                    store=SessionStore(database, config, world),
                    reader=SessionReader(database, journals, world),
                    board=board,
                    worker=worker,
                    secrets=secrets,
                )
                connections = {(a.name, a.account): Connection(a, board, secrets) for a in setup.adapters}
                lease = Lease(home.life, node)
                await _take_over(home, shutdown, lease, connections, guard)
                commands = await open_commands(home, shutdown, guard, setup.choose_sandbox)
                with lease.scope:
                    await _connected(
                        home, shutdown, lease, connections, commands, agent, setup.doors, task_status
                    )
                if lease.is_lost:
                    log.error("lease lost; the work of this gateway is another one's", life=home.life)
                    control.ask(Ending(Cause.LIFE_OVER, grace=0, asked_by="the lease"))
                await store_report(home, shutdown)
            ending = _left_behind(home, shutdown)
            outermost.cancel_scope.cancel(reason="the state is written last")
    return ending


@asynccontextmanager
async def _failed_start_noted(board: StatusBoard) -> AsyncIterator[None]:
    """Note on the board why the block fails, if it fails before the doors are open."""
    try:
        yield
    except BaseException as error:  # an error of ours may come in one group with Cancelled; all goes on
        errors = gateway_errors(error)
        if errors and board.status.gateway_state is GatewayState.STARTING:
            board.set_failed_start(errors)
        raise


async def _connected(
    home: Home,
    shutdown: Shutdown,
    lease: Lease,
    connections: Mapping[Address, Connection],
    commands: CommandRunner,
    agent: Agent,
    doors: Sequence[Door],
    task_status: trio.TaskStatus[RunningGateway],
) -> None:
    """The inner half of the tree: from the platforms to the turns."""
    own_doors = {one.adapter.name for one in connections.values() if one.adapter.traits.own_door}
    access = Access(home.config, home.database, home.world, own_doors)
    known = {Chat(*chat): reason for *chat, reason in await home.database.read(dead_chats.every)}
    gone = GoneChats(home.database, home.world, known)
    home_channels = await home_channels_of(home, connections)
    async with trio.open_nursery() as links:
        async with trio.open_nursery() as open_doors, trio.open_nursery() as lanes:
            chats = Chats(home, connections, gone, home_channels, lanes)
            async with trio.open_nursery() as background:
                async with trio.open_nursery() as turns:
                    work = Work(
                        home, chats, shutdown, access, commands, agent, work=turns, background=background
                    )
                    mailbox = Mailbox(home, chats, shutdown.control, access, work)
                    obey = Commands(home, chats, shutdown, access, mailbox, work)
                    gateway = RunningGateway(home, chats, work, shutdown, mailbox, obey, lease.node)
                    router = Router(home, chats, access, mailbox, obey)
                    catch_up = CatchUp(home, chats, access, work.sessions)
                    drain = Drain(home, chats, shutdown, work)
                    background.start_soon(drain.hurry)
                    # It outlives the turns by a moment, and then cancels a scope that has nothing left.
                    background.start_soon(drain.cut_when_due, turns.cancel_scope)  # noqa: ASYNC111
                    background.start_soon(keep_house, home, commands.guard)
                    background.start_soon(send_heartbeats, home)
                    background.start_soon(keep_schedule, home, shutdown.control, work.sessions)
                    background.start_soon(work.running.limit.follow_lag)
                    background.start_soon(end_with_database, shutdown.control, home.database, home.world)
                    background.start_soon(lease.keep, home.database)
                    settle_former = partial(_settle_former_lives, home, connections)
                    background.start_soon(watch_others, home, lease, settle_former)
                    hints = Wakeup()
                    take_in = partial(router.accept, at_door=False)
                    background.start_soon(
                        look_after_own_chats,
                        home,
                        lease,
                        connections.values(),
                        catch_up.take_up,
                        take_in,
                        hints,
                    )
                    background.start_soon(hear_hints, home, hints.set)
                    for door in doors:
                        await open_doors.start(door, gateway)
                    for connection in connections.values():
                        name = f"link {connection.name}"
                        links.start_soon(
                            _link, home, shutdown, connections, connection, catch_up, router, name=name
                        )
                    home.board.set(state=serving_state(shutdown))
                    log.info("gateway started", platforms=sorted({name for name, _ in connections}))
                    background.start_soon(heed_hold, home, chats, shutdown, work, catch_up)
                    task_status.started(gateway)
                    await drain.drain_active_agents(background)
                shutdown.report.end_phase("work")
                background.cancel_scope.cancel(reason="the work is over")
            shutdown.report.end_phase("background")
            shutdown.work_over.set()
            last = open_doors.cancel_scope.deadline = shutdown.deadline(FLUSH_WITHIN, before_end=2.0)
            with trio.CancelScope(deadline=last):
                await chats.flushed()
            shutdown.report.end_phase("flush")
            lanes.cancel_scope.cancel(reason="everything that can be sent now is sent")
        links.cancel_scope.cancel(reason="the work is over")
    shutdown.report.end_phase("links")


async def _link(
    home: Home,
    shutdown: Shutdown,
    connections: Mapping[Address, Connection],
    connection: Connection,
    catch_up: CatchUp,
    router: Router,
) -> None:
    """Keep one platform connected. The gateway ends when the last platform has refused its credentials."""
    receives = partial(hold_role, home, f"receive:{connection.name}")
    accept = partial(router.accept, connection)
    await keep_connected(connection, catch_up.run, receives, accept, home.world, home.database)
    if all(one.state is PlatformState.FATAL for one in connections.values()):
        grace = home.config.agent.restart_drain_timeout
        shutdown.control.ask(Ending(Cause.NOTHING_SERVES, grace, asked_by=connection.name))


def _left_behind(home: Home, shutdown: Shutdown) -> Ending:
    """Write what the next life and people outside find: the state, and the marker to announce the return."""
    ending = shutdown.control.current
    assert ending is not None  # noqa: S101 - it ended the tree
    follows = shutdown.consequences(ending)
    if ending.cause is Cause.RESTART and ending.requester is None:
        try:
            write_restart_pending(home.path, home.world, asked_by=ending.asked_by)
        except HomeUnusable as error:  # a full disk must not prevent the restart
            log.error("restart marker not written", error=str(error))
    if ending.requester is None:
        consume(home.path, RESTART_NOTIFY)  # a stop has replaced a restart that was requested in a chat
    home.board.set(
        state=GatewayState(follows.state_left),
        exit_reason=ending.cause,
        restart_requested=ending.kind == "restart",
    )
    return ending


async def _take_over(
    home: Home,
    shutdown: Shutdown,
    lease: Lease,
    connections: Mapping[Address, Connection],
    guard: Guard | None,
) -> None:
    """Begin this life, and settle what a former life left behind, before any door opens."""
    crashed = await begin_life(home, lease.node, shutdown.control)
    lease.guards(home.database)
    if guard is not None:
        await _end_leftovers(home, shutdown, guard)
    if crashed:
        await owe_return_after_crash(home, connections)
        if home.config.agent.crash_recovery == "suspend":
            await home.store.suspend_recently_active()
    await import_sessions(home)
    await _settle_former_lives(home, connections)


async def _settle_former_lives(home: Home, connections: Mapping[Address, Connection]) -> None:
    """End the turns that lives which are over left open, and suspend the sessions that were cut too often."""
    cut = await end_former_turns(home, connections)
    limit, at = home.config.agent.stuck_after, home.world.time()
    stuck = await home.database.write(_suspend_stuck, limit, at)
    if cut:
        log.info("turns of a former life cut", turns=len(cut), suspended=stuck)


def _suspend_stuck(db: Db, limit: int, at: float) -> int:
    """Suspend the sessions that were cut too often in a row, and owe their announcements. Return their
    number."""
    stuck = settle.suspend_stuck(db, limit, at)
    owe_stuck(db, stuck, at)
    return len(stuck)


async def _end_leftovers(home: Home, shutdown: Shutdown, guard: Guard) -> None:
    """Kill the child processes that a former life left running, and note the end of all it had."""
    rows = await home.database.read(processes.alive_in_home, home.life)
    await end_leftovers(rows, guard.look, shutdown.begun)
    for row in rows:
        await home.database.write(processes.end, row.process_id, None, home.world.time())


@asynccontextmanager
async def _opened(agent: AnyAgent, control: Control) -> AsyncIterator[Agent]:
    """Open the agent: a function as it is, or a context manager, which closes its memory and clients at the
    end."""
    if not isinstance(agent, AbstractAsyncContextManager):
        yield checked_agent(agent)
        return
    crash: BaseException | None = None
    is_left = False
    try:
        with trio.CancelScope() as patience:
            async with agent as opened:
                try:
                    yield checked_agent(opened)
                except BaseException as error:  # kept: an agent that hangs while closing would hide it
                    crash = error
                    raise
                finally:
                    is_left = True
                    patience.deadline = min(control.end_by - 1.5, trio.current_time() + MARGIN)
    except Exception:  # an agent is foreign code; an error in its closing must not make a crash of a stop
        if not is_left or crash is not None:
            raise
        log.exception("agent not closed; it raised")
    if patience.cancelled_caught:
        log.error("agent not closed; it hangs")
        if crash is not None:
            raise crash
