"""Stopping: from the ending that somebody asked for to the moment when no turn runs any more.

`t = 0` is when the ending is set. Its commit comes first, so that whatever kills us later, a turn
without an end was cut by it. Then no turn begins any more, the chats with a running turn are told, and
the nursery of the sessions has until `grace` to end by itself. Nothing is polled or counted: the
nursery is left when the last turn is over, or when the deadline cuts what is left.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import msgspec
import trio

from ..base.errors import GatewayError, StoreError
from ..host.home.state_file import GatewayState
from ..log import Log
from ..state.tables import endings
from .ending.endings_table import Ending
from .links.link import Connection
from .outbound.announcements import notify_active_sessions_of_shutdown
from .startup.catch_up import on_up

if TYPE_CHECKING:
    from .parts import Gateway

RECORD_WITHIN = 1.0
REPORT_WITHIN = 1.0
GO_ON_AGAIN_AFTER = 30.0
LAST_TURNS = 20
"""So many of the turns that were waited for are named in the report."""

log = Log(__name__)


class Report(msgspec.Struct):
    """How a stop went, in milliseconds since it was asked for: when each phase was over, and each of the
    turns that were waited for longest. Stored with the ending, for who asks what took so long."""

    began: float
    """On the clock of the program."""
    turns: int
    """How many were running."""
    phases: dict[str, float] = {}
    last_turns: dict[str, float] = {}

    def is_over(self, phase: str) -> None:
        """A phase ends now."""
        self.phases[phase] = self._now()

    def turn_is_over(self, session_key: str) -> None:
        """A turn that was waited for ends now."""
        self.last_turns.pop(session_key, None)
        self.last_turns[session_key] = self._now()
        if len(self.last_turns) > LAST_TURNS:
            del self.last_turns[next(iter(self.last_turns))]

    def _now(self) -> float:
        return round((trio.current_time() - self.began) * 1000, 1)


async def drain_active_agents(gateway: Gateway, work: trio.CancelScope, background: trio.Nursery) -> None:
    """Wait for an ending, and see to it that the work ends by it. Called in the body of the `work`
    nursery: when this returns, only the turns that still run hold it open."""
    try:
        ending = await gateway.control.ending()
    except trio.Cancelled:
        gateway.control.hurry()  # a crash: nothing was decided, and whatever hangs must not keep us
        raise
    began = gateway.control.asked_at
    gateway.sessions.close()
    report = gateway.report = Report(began, len(gateway.sessions.running))
    gateway.ending.set()
    await _decided(gateway, ending)
    gateway.reached("recorded")
    log.info("ending", cause=ending.cause, grace=ending.grace, running=report.turns)
    notify_active_sessions_of_shutdown(gateway, ending)
    work.deadline = min(work.deadline, began + ending.grace)  # somebody may be in a hurry already
    background.start_soon(follow, gateway, work, ending, began)


async def hurry(gateway: Gateway, work: trio.CancelScope) -> None:
    """When somebody asks a second time, the grace is over."""
    await gateway.control.hurried()
    work.deadline = -math.inf


async def follow(gateway: Gateway, work: trio.CancelScope, ending: Ending, began: float) -> None:
    """When a stop turns a restart into a stop, that is the ending that counts, and perhaps less grace."""
    while True:
        ending = await gateway.control.changed(ending)
        await _decided(gateway, ending)
        work.deadline = min(work.deadline, began + ending.grace)


async def _decided(gateway: Gateway, ending: Ending) -> None:
    """Commit what was decided, and let the state file say what to make of it."""
    # A disk that hangs or is full must not keep the gateway from stopping: then the next start finds a crash.
    try:
        with trio.move_on_after(RECORD_WITHIN):
            await gateway.record(ending)
    except StoreError as error:
        log.error("the ending cannot be stored", error=str(error))
    gateway.board.set(
        state=GatewayState.DRAINING,
        restart_requested=ending.kind == "restart",
        after=gateway.what_follows(ending).state_left,
        grace=ending.grace,
        deadline=gateway.world.time() + gateway.control.end_by - trio.current_time(),
    )


async def store_report(gateway: Gateway) -> None:
    """Store how it went, if the disk lets us in time."""
    report = gateway.report
    if report is not None:
        log.info("ended", turns=report.turns, **{f"{phase}_ms": at for phase, at in report.phases.items()})
        text = msgspec.json.encode(report).decode()
        try:
            with trio.CancelScope(deadline=gateway.within(REPORT_WITHIN, before_end=1.5)):
                await gateway.database.write(endings.finish, gateway.life, text, gateway.world.time())
        except StoreError as error:
            log.error("the report cannot be stored", error=str(error))


async def heed_hold(gateway: Gateway) -> None:
    """While somebody holds the gateway from outside, no turn begins; then it goes on with what waits."""
    held = False
    while True:
        await gateway.control.turned(held)
        if gateway.control.current is not None:
            return
        held = gateway.control.held
        gateway.board.set(state=state_while_serving(gateway))
        if held:
            gateway.sessions.let_idle_ones_go()
            continue
        gateway.told.clear()
        for connection in gateway.connections.values():
            await _go_on(gateway, connection)


async def _go_on(gateway: Gateway, connection: Connection) -> None:
    """Go on with what waits for a platform. On a full disk that waits too."""
    while connection.link is not None and gateway.sessions.open:
        try:
            await on_up(gateway, connection)
        except GatewayError as error:
            log.error("what waits cannot go on; trying again", platform=connection.name, error=str(error))
        else:
            return
        await trio.sleep(GO_ON_AGAIN_AFTER)


def state_while_serving(gateway: Gateway) -> GatewayState:
    """What the state file says while nothing ends."""
    return GatewayState.DRAINING if gateway.control.held else GatewayState.RUNNING
