"""Stopping: from the ending that somebody asked for to the moment when no turn runs any more.

`t = 0` is when the ending is set. Its commit comes first, so that whatever kills us later, a turn
without an end was cut by it. Then no turn begins any more, the chats with a running turn are told, and
the nursery of the sessions has until `grace` to end by itself. Nothing is polled or counted: the
nursery is left when the last turn is over, or when the deadline cuts what is left.
"""

from __future__ import annotations

import logging
import math
from typing import TYPE_CHECKING

import msgspec
import structlog
import trio

from ..host.status import GatewayState
from ..state import endings
from .ending import MARGIN

if TYPE_CHECKING:
    from .gateway import Gateway

RECORD_WITHIN = 1.0
REPORT_BEFORE = 0.5
"""Seconds before the end when nobody waits for the report any more."""
LAST_TURNS = 20
"""So many of the turns that were waited for are named in the report."""

log = structlog.wrap_logger(logging.getLogger(__name__))


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


async def drain_active_agents(gateway: Gateway, work: trio.CancelScope) -> None:
    """Wait for an ending, and see to it that the work ends by it. Called in the body of the `work`
    nursery: when this returns, only the turns that still run hold it open."""
    ending = await gateway.control.ending()
    began = trio.current_time()
    gateway.sessions.close()
    report = gateway.report = Report(began, len(gateway.sessions.running))
    gateway.ending.set()
    gateway.end_by = began + ending.grace + MARGIN
    # A disk that hangs must not keep the gateway from stopping: then the next start finds a crash.
    with trio.move_on_after(RECORD_WITHIN):
        await gateway.record(ending)
    gateway.reached("recorded")
    log.info("ending", cause=ending.cause, grace=ending.grace, running=report.turns)
    gateway.board.set(
        state=GatewayState.DRAINING,
        after=gateway.what_follows(ending).state_left,
        grace=ending.grace,
        deadline=gateway.world.time() + gateway.end_by - trio.current_time(),
    )
    gateway.notify_active_sessions_of_shutdown(ending)
    work.deadline = began + ending.grace


async def hurry(gateway: Gateway, work: trio.CancelScope) -> None:
    """When somebody asks a second time, the grace is over."""
    await gateway.control.hurried()
    gateway.end_by = trio.current_time() + MARGIN
    work.deadline = -math.inf


async def follow(gateway: Gateway, work: trio.CancelScope) -> None:
    """When a stop turns a restart into a stop, that is the ending that counts, and perhaps less grace."""
    await gateway.control.ending()
    began = trio.current_time()
    while True:
        ending = await gateway.control.changed()
        await gateway.record(ending)
        work.deadline = min(work.deadline, began + ending.grace)


async def store_report(gateway: Gateway) -> None:
    """Store how it went, if the disk lets us in time."""
    report = gateway.report
    if report is not None and gateway.end_by is not None:
        log.info("ended", turns=report.turns, **{f"{phase}_ms": at for phase, at in report.phases.items()})
        text = msgspec.json.encode(report).decode()
        with trio.CancelScope(deadline=gateway.end_by - REPORT_BEFORE):
            await gateway.database.write(endings.finish, gateway.life, text, gateway.world.time())
