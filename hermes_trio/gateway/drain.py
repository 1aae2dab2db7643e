"""The drain: from the requested ending to the moment when no turn runs any more; also the hold, which is a
drain without an ending.

`t = 0` is the request of the ending. Its commit comes first, so that whatever kills the process later, a turn
without an end was cut by this ending. Then no turn begins any more, the chats with a running turn are told,
and the nursery of the sessions has until `grace` to end on its own. Nothing is polled or counted: the nursery
is left when the last turn has ended. At the deadline the turns that still run are cut.

It may touch the ending, the table of endings, the state file and the deadlines of nurseries; the sessions cut
their turns.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import msgspec
import trio

from ..base.errors import GatewayError, StoreError
from ..host.home.state_file import GatewayState
from ..log import Log
from ..state.db.engine import Db
from ..state.tables import chats, endings, lives
from ..state.tables.endings import EndingRow
from .ending.control import Control
from .ending.endings_table import Ending
from .ending.shutdown import Shutdown
from .home.open_home import Home
from .links.link import Connection
from .outbound.announcements import notify_active_sessions_of_shutdown
from .outbound.chats import Chats
from .session.work import Work
from .startup.catch_up import CatchUp

RECORD_WITHIN = 1.0
"""Seconds for the commit of the ending, and for that of the report."""
CATCH_UP_AGAIN_AFTER = 30.0

log = Log(__name__)


@dataclass(frozen=True, slots=True)
class Drain:
    """Ends the work of a gateway when its ending is requested."""

    home: Home
    chats: Chats
    shutdown: Shutdown
    work: Work
    grace: trio.CancelScope = field(default_factory=trio.CancelScope)
    """Its deadline is the end of the grace."""

    async def drain_active_agents(self, background: trio.Nursery) -> None:
        """Wait for an ending, and set the end of the grace. Called in the body of the work nursery: after it
        returns, only running turns keep that nursery open."""
        control = self.shutdown.control
        try:
            ending = await control.ending()
        except trio.Cancelled:
            control.hurry()  # a crash: no ending was decided, and no hanging step may delay the exit
            raise
        began, running = control.asked_at, self.work.running
        self.work.sessions.look_again()
        self.shutdown.report.begin(began, len(running))
        self.shutdown.begun.set()
        await self._store_ending(ending)
        self.shutdown.report.end_phase("recorded")
        log.info("ending", cause=ending.cause, grace=ending.grace, running=self.shutdown.report.turns)
        notify_active_sessions_of_shutdown(self.home, self.chats, self.shutdown, running.handles(), ending)
        self._due(began + ending.grace)
        background.start_soon(self._follow, ending, began)

    async def hurry(self) -> None:
        """Wait for a second stop request, then end the grace."""
        await self.shutdown.control.hurried()
        self._due(-math.inf)

    def _due(self, at: float) -> None:
        self.grace.deadline = min(self.grace.deadline, at)

    async def cut_when_due(self, turns: trio.CancelScope) -> None:
        """Wait for the end of the grace, and cut the turns that still run."""
        with self.grace:
            await trio.sleep_forever()
        await self.work.sessions.cut()
        turns.cancel(reason="the grace is over")

    async def _follow(self, ending: Ending, began: float) -> None:
        """Apply each later ending: a stop that replaces a restart, perhaps with less grace."""
        while True:
            ending = await self.shutdown.control.changed(ending)
            await self._store_ending(ending)
            self._due(began + ending.grace)

    async def _store_ending(self, ending: Ending) -> None:
        """Commit the ending, and show it in the state file."""
        home, shutdown = self.home, self.shutdown
        follows = shutdown.consequences(ending)
        row = EndingRow(
            home.life,
            ending.kind,
            ending.cause,
            ending.grace,
            follows.resume_reason,
            follows.state_left,
            home.world.time(),
            ending.asked_by or None,
        )
        # A disk that hangs or is full must not keep the gateway from stopping: the next start then finds a
        # crash.
        try:
            with trio.move_on_after(RECORD_WITHIN):
                await home.database.write(endings.record, row)
        except StoreError as error:
            log.error("ending not stored", error=str(error))
        if shutdown.control.hands_over:
            return  # for programs outside, the gateway goes on
        home.board.set(
            state=GatewayState.DRAINING,
            restart_requested=ending.kind == "restart",
            after=follows.state_left,
            grace=ending.grace,
            deadline=home.world.time() + shutdown.control.end_by - trio.current_time(),
        )


async def store_report(home: Home, shutdown: Shutdown) -> None:
    """Store the report of the stop, and that this life is over, if the disk takes it in time."""
    report = shutdown.report
    if not report.has_begun:
        return
    log.info("ended", turns=report.turns, **{f"{phase}_ms": at for phase, at in report.phases.items()})
    text = msgspec.json.encode(report).decode()
    try:
        with trio.CancelScope(deadline=shutdown.deadline(RECORD_WITHIN, before_end=1.5)):
            await home.database.write(_finish, home.life, text, home.world.time())
    except StoreError as error:
        log.error("shutdown report not stored", error=str(error))


def _finish(db: Db, life: str, report: str, at: float) -> None:
    endings.finish(db, life, report, at)
    lives.leave(db, life, at)
    chats.free(db)


async def heed_hold(home: Home, chats: Chats, shutdown: Shutdown, work: Work, catch_up: CatchUp) -> None:
    """Let no turn begin while a drain request holds the gateway; afterwards take up the work that waits."""
    control, held = shutdown.control, False
    while True:
        await control.turned(held)
        if control.current is not None:
            return
        held = control.held
        home.board.set(state=serving_state(shutdown))
        if held:
            work.sessions.look_again()
            continue
        chats.pause_over()
        for connection in chats.connections.values():
            await _catch_up(connection, control, catch_up)


async def _catch_up(connection: Connection, control: Control, catch_up: CatchUp) -> None:
    """Take up the work that waits for a platform. Retry, as on a full disk, until the link is lost or turns
    may not begin."""
    while connection.link is not None and control.takes_turns:
        try:
            await catch_up.run(connection)
        except GatewayError as error:
            log.error("catch-up failed; retrying", platform=connection.name, error=str(error))
        else:
            return
        await trio.sleep(CATCH_UP_AGAIN_AFTER)


def serving_state(shutdown: Shutdown) -> GatewayState:
    """Return the state in the state file while there is no ending."""
    return GatewayState.DRAINING if shutdown.control.held else GatewayState.RUNNING
