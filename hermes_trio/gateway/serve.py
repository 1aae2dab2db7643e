"""The tree of lifetimes. Indentation is the order of opening; leaving is the reverse. There is no list
of teardown steps anywhere."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, ExitStack, asynccontextmanager
from functools import partial
from pathlib import Path

import trio

from ..base.errors import HomeUnusable, gateway_errors
from ..base.world import World
from ..config.schema import GatewayConfig
from ..host.home.home_lock import locked_home
from ..host.home.markers import RESTART_NOTIFY, consume, write_restart_pending
from ..host.home.state_file import GatewayState, PlatformState
from ..host.home.status_board import StatusBoard, keep_status
from ..host.loop.worker import Worker, worker_thread
from ..host.processes.guard import Guard, open_guard
from ..host.processes.leftovers import end_leftovers
from ..journal.session_reader import SessionReader
from ..journal.writer import open_journals
from ..log import Log, log_masked_by
from ..masking.known_secrets import masking_of
from ..platform.contract import Adapter
from ..state.db.database import open_database
from ..state.rules import settle
from ..state.rules.store import SessionStore
from ..state.tables import dead_chats, endings, meta, processes
from .drain import drain_active_agents, heed_hold, hurry, state_while_serving, store_report
from .ending.control import Control
from .ending.endings_table import MARGIN, Cause, Ending, Supervisor
from .housekeeping import keep_house
from .intake.chat_intake import accept
from .links.link import Connection, keep_connected
from .outbound.announcements import home_channels_said, owe_stuck
from .outbound.rows import Chat
from .parts import Gateway, Lanes
from .processes.background import Background
from .session.registry import Sessions
from .startup.catch_up import on_up
from .startup.former_turns import settle_former_life
from .startup.original_import import import_sessions
from .triggers import end_with_database
from .turn.context import Agent, checked_agent

FLUSH_WITHIN = 2.0
"""Seconds in which the lanes send what can go now, when the work is over."""

LIFE = "life"
"""Where the store says which life was the last."""

Door = Callable[..., Awaitable[None]]
"""Another way in than a platform: called with the gateway and a `task_status`, which it tells when it is
open. When the gateway's work is `over` it gives the last of it to who still listens, and returns."""

Guarded = Callable[[], AbstractAsyncContextManager[Guard | None]]
"""Opens the guard of the gateway's processes; a gateway that starts none may be given none."""

log = Log(__name__)


async def serve(
    home: Path,
    config: GatewayConfig,
    *,
    agent: Agent | AbstractAsyncContextManager[Agent],
    adapters: Sequence[Adapter],
    doors: Sequence[Door] = (),
    control: Control | None = None,
    world: World | None = None,
    supervised_by: Supervisor = Supervisor.NONE,
    worker: Worker = worker_thread,
    guarded: Guarded = open_guard,
    task_status: trio.TaskStatus[Gateway] = trio.TASK_STATUS_IGNORED,
) -> Ending:
    """Run a gateway until it is asked to end, and return by what it ended. With `nursery.start` the
    caller gets the `Gateway` as soon as its doors are open."""
    world, control = world or World(), control or Control()
    if not isinstance(agent, AbstractAsyncContextManager):
        checked_agent(agent)  # before anything is opened
    with ExitStack() as masked, locked_home(home) as lock, worker("status") as status_runner:
        masking = masking_of(home, config, os.environ)
        masked.enter_context(log_masked_by(masking))
        board = StatusBoard(lock.process, world.new_id(), world)
        board.set(grace=config.agent.restart_drain_timeout)
        async with trio.open_nursery() as outermost:
            outermost.start_soon(keep_status, board, home, status_runner, lock)
            async with (
                _failed_start_noted(board),
                open_database(
                    home / "gateway.db", world, worker=worker, close_by=lambda: control.end_by - 0.5
                ) as database,
                open_journals(
                    home / "journal",
                    world,
                    fsync=config.journal.fsync,
                    worker=worker,
                    close_by=lambda: control.end_by - 1.0,
                ) as journals,
                guarded() as guard,
                _opened(agent, control) as opened_agent,
            ):
                gateway = Gateway(
                    home=home,
                    config=config,
                    world=world,
                    life=world.new_id(),
                    database=database,
                    journals=journals,
                    store=SessionStore(database, config, world),
                    reader=SessionReader(database, journals, world),
                    agent=opened_agent,
                    control=control,
                    connections={(a.name, a.account): Connection(a, board, masking) for a in adapters},
                    supervised_by=supervised_by,
                    board=board,
                    guard=guard,
                    resumes=trio.CapacityLimiter(config.gateway.resume_at_once),
                    masking=masking,
                    worker=worker,
                )
                await _take_over(gateway)
                await _links(gateway, doors, task_status)
                await store_report(gateway)
            ending = _left(gateway)
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


async def _links(gateway: Gateway, doors: Sequence[Door], task_status: trio.TaskStatus[Gateway]) -> None:
    """The inner half of the tree: from the platforms to the turns."""
    async with trio.open_nursery() as links:
        async with trio.open_nursery() as open_doors, trio.open_nursery() as lanes:
            gateway.lanes = Lanes(gateway, lanes)
            async with trio.open_nursery() as background:
                gateway.background = Background(gateway, background)
                async with trio.open_nursery() as work:
                    gateway.sessions = Sessions(gateway, work)
                    # It outlives the work by a moment, and then moves a deadline that nobody has.
                    background.start_soon(hurry, gateway, work.cancel_scope)  # noqa: ASYNC111
                    background.start_soon(keep_house, gateway)
                    background.start_soon(gateway.sessions.limit.follow_lag)
                    background.start_soon(end_with_database, gateway.control, gateway.database, gateway.world)
                    for door in doors:
                        await open_doors.start(door, gateway)
                    for connection in gateway.connections.values():
                        links.start_soon(_link, gateway, connection, name=f"link {connection.name}")
                    gateway.board.set(state=state_while_serving(gateway))
                    background.start_soon(heed_hold, gateway)
                    task_status.started(gateway)
                    await drain_active_agents(gateway, work.cancel_scope, background)
                gateway.reached("work")
                background.cancel_scope.cancel(reason="the work is over")
            gateway.reached("background")
            gateway.over.set()
            last = open_doors.cancel_scope.deadline = gateway.within(FLUSH_WITHIN, before_end=2.0)
            with trio.CancelScope(deadline=last):
                await gateway.lanes.flushed()
            gateway.reached("flush")
            lanes.cancel_scope.cancel(reason="what can go now has gone")
        links.cancel_scope.cancel(reason="the work is over")
    gateway.reached("links")


async def _link(gateway: Gateway, connection: Connection) -> None:
    """Keep one platform connected. The last that refuses us takes the gateway along."""
    await keep_connected(connection, partial(on_up, gateway), partial(accept, gateway), gateway.world)
    if all(one.state is PlatformState.FATAL for one in gateway.connections.values()):
        grace = gateway.config.agent.restart_drain_timeout
        gateway.control.ask(Ending(Cause.NOTHING_SERVES, grace, asked_by=connection.name))


def _left(gateway: Gateway) -> Ending:
    """What is left behind for whoever looks next: the state, and that the next life says it is back."""
    ending = gateway.control.current
    assert ending is not None  # noqa: S101 - that is what ended it
    follows = gateway.what_follows(ending)
    if ending.kind == "restart" and ending.requester is None:
        try:
            write_restart_pending(gateway.home, gateway.world, asked_by=ending.asked_by)
        except HomeUnusable as error:  # a disk that takes no file keeps nobody from being started again
            log.error("nobody will hear of our return", error=str(error))
    if ending.requester is None:
        consume(gateway.home, RESTART_NOTIFY)  # a stop took the place of what was asked for
    gateway.board.set(
        state=GatewayState(follows.state_left),
        exit_reason=ending.cause,
        restart_requested=ending.kind == "restart",
    )
    return ending


async def _take_over(gateway: Gateway) -> None:
    """Deal with what a former life left behind, before any door opens."""
    store, config = gateway.store, gateway.config
    if gateway.guard is not None:
        await _end_leftovers(gateway, gateway.guard)
    crashed = await gateway.database.write(_follows_a_crash, gateway.life)
    if crashed and config.agent.crash_recovery == "suspend":
        await store.suspend_recently_active()
    for *chat, reason in await gateway.database.read(dead_chats.every):
        gateway.dead[Chat(*chat)] = reason
    gateway.home_channels = await gateway.database.read(home_channels_said)
    cut = await settle_former_life(gateway)
    await import_sessions(gateway)
    limit, at = config.agent.stuck_after, gateway.world.time()
    stuck = await gateway.database.write(_suspend_stuck, limit, at)
    if cut:
        log.info("a former life was cut", turns=len(cut), suspended=stuck)


def _follows_a_crash(db: sqlite3.Connection, life: str) -> bool:
    """Whether the life before this one was over before anything had been decided; this is the next one."""
    former = meta.get(db, LIFE)
    meta.put(db, LIFE, life)
    return former is not None and endings.of_life(db, former) is None


def _suspend_stuck(db: sqlite3.Connection, limit: int, at: float) -> int:
    """Suspend who was cut too often in a row, and owe it to them to say so."""
    stuck = settle.suspend_stuck(db, limit, at)
    owe_stuck(db, stuck, at)
    return len(stuck)


async def _end_leftovers(gateway: Gateway, guard: Guard) -> None:
    """End the processes that a former life left running, and note the end of all it had."""
    rows = await gateway.database.read(processes.alive)
    await end_leftovers(rows, guard.look, gateway.ending)
    for row in rows:
        await gateway.database.write(processes.end, row.process_id, None, gateway.world.time())


@asynccontextmanager
async def _opened(
    agent: Agent | AbstractAsyncContextManager[Agent], control: Control
) -> AsyncIterator[Agent]:
    """The agent itself: given as it is, or as a context that closes its memory and clients once."""
    if not isinstance(agent, AbstractAsyncContextManager):
        yield agent
        return
    crash: BaseException | None = None
    is_left = False
    try:
        with trio.CancelScope() as patience:
            async with agent as opened:
                try:
                    yield checked_agent(opened)
                except BaseException as error:  # kept: an agent that hangs now would hide it
                    crash = error
                    raise
                finally:
                    is_left = True
                    patience.deadline = min(control.end_by - 1.5, trio.current_time() + MARGIN)
    except Exception:  # an agent is anybody's code; that it cannot be closed makes no crash of a stop
        if not is_left or crash is not None:
            raise
        log.exception("the agent cannot be closed")
    if patience.cancelled_caught:
        log.error("the agent hangs; left it unclosed")
        if crash is not None:
            raise crash
