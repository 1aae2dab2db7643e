"""One run, looked at by its name and followed from any of its events to its end.

A run is known from the moment its name was promised, before it has begun: what stands is read from the rows,
what happened from its journal, what happens from who tells it when it is in there. Nobody who follows waits
for an end that nobody will write: whoever hears nothing for a while looks at the rows again. So a message
that is dropped before its run began, or a run whose last record the disk did not take, has an end here.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import msgspec
import trio

from ...base.errors import JournalError
from ...base.events import INTERRUPTED, Event, RunCancelled, RunCompleted, RunFailed
from ...journal.reader import Reading
from ...journal.record import VERSION, Record, terminal_state
from ...log import Log
from ...state.tables import inbox, sessions, transcript, turns
from ...state.tables.inbox import InboxState, Received
from ...state.tables.turns import Outcome, TurnRow

if TYPE_CHECKING:
    from ...gateway.facade import Gateway
    from ...gateway.turn.handle import TurnHandle

HEARTBEAT = 15.0

Status = Literal[
    "queued",
    "running",
    "waiting_for_approval",
    "stopping",
    "completed",
    "failed",
    "cancelled",
    "interrupted",
]
_ENDED: dict[Outcome, Status] = {
    Outcome.ANSWERED: "completed",
    Outcome.STOPPED: "cancelled",
    Outcome.SUPERSEDED: "cancelled",
    Outcome.RESET: "cancelled",
    Outcome.TIMED_OUT: "failed",
    Outcome.FAILED: "failed",
    Outcome.CUT: "interrupted",
    Outcome.UNSTARTED: "interrupted",
}

log = Log(__name__)


@dataclass(frozen=True, slots=True)
class Standing:
    """How a run stands."""

    run_id: str
    session_id: str | None
    """None while it waits, and its session is not there yet."""
    session_key: str
    status: Status
    turn: TurnRow | None
    message: Received | None
    """What it answers, as long as that is kept."""
    answer: str | None
    resumed_as: str | None
    """The run that took it up, after it was cut."""
    task: TurnHandle | None
    """The handle by which it can be ended, while it runs."""

    @property
    def is_over(self) -> bool:
        return self.status in ("completed", "failed", "cancelled", "interrupted")

    @property
    def waits(self) -> bool:
        """Whether its message waits, be it because the run had not begun when it was cut."""
        return self.message is not None and self.message.state is InboxState.PENDING

    @property
    def error(self) -> str | None:
        """What went wrong, in words."""
        if self.status == "interrupted":
            return "The gateway ended before the run did."
        return self.turn.reason if self.turn is not None and self.status == "failed" else None


@dataclass(frozen=True, slots=True)
class _Rows:
    turn: TurnRow | None
    message: Received | None
    key: str
    session_id: str | None
    answer: str | None
    resumed_as: str | None


async def standing(gateway: Gateway, run_id: str) -> Standing | None:
    """How this run stands; None if there is no run of this name, and none was promised."""
    rows = await gateway.home.database.read(_look, run_id)
    if rows is None:
        return None
    task = gateway.work.running.handle(rows.key)
    if task is not None and task.run_id != run_id:
        task = None
    return Standing(
        run_id,
        rows.session_id,
        rows.key,
        _status(rows, task),
        rows.turn,
        rows.message,
        rows.answer,
        rows.resumed_as,
        task,
    )


def _status(rows: _Rows, task: TurnHandle | None) -> Status:
    # Its row has its end before its journal has: it runs until its task is left.
    if task is not None and task.scope.cancel_called:
        return "stopping"
    if task is not None and any(asked.kind == "approval" for asked in task.questions):
        return "waiting_for_approval"
    if task is not None and rows.turn is not None:
        return "running"
    if rows.turn is None:
        waits = rows.message is not None and rows.message.state is InboxState.PENDING
        return "queued" if waits else "cancelled"
    return "running" if rows.turn.outcome is None else _ENDED[rows.turn.outcome]


def _look(db: sqlite3.Connection, run_id: str) -> _Rows | None:
    turn, message = turns.by_run(db, run_id), inbox.by_run(db, run_id)
    if turn is None:
        if message is None:
            return None
        entry = sessions.open_by_key(db, message.session_key)
        return _Rows(None, message, message.session_key, entry.session_id if entry else None, None, None)
    entry = sessions.by_id(db, turn.session_id)
    answer = transcript.answer_of(db, turn.turn_id) if turn.outcome is Outcome.ANSWERED else None
    return _Rows(
        turn, message, entry.session_key if entry else "", turn.session_id, answer, _later(db, turn, message)
    )


def _later(db: sqlite3.Connection, turn: TurnRow, message: Received | None) -> str | None:
    """The run in which a cut one goes on; one that had not begun begins anew, with its message."""
    if turn.outcome is Outcome.CUT:
        resume = turns.resume_of(db, turn.turn_id)
        return resume.run_id if resume else None
    if turn.outcome is Outcome.UNSTARTED and message is not None and message.turn_id is not None:
        later = turns.get(db, message.turn_id)
        return later.run_id if later is not None else None
    return None


# --- from event to event -----------------------------------------------------------------------------


@dataclass(slots=True)
class Follower:
    """Somebody who follows a run."""

    tell: Callable[[Record], Awaitable[None]]
    """Called with each of its events, in order, up to its last."""
    gap: Callable[[], Awaitable[None]]
    """Called where events are missing that cannot be read any more."""
    silence: Callable[[], Awaitable[None]]
    """Called when nothing has happened for a while."""
    after: int = 0
    """The seq of the last event that was told."""
    has_end: bool = False

    async def hear(self, records: Iterable[Record]) -> None:
        for record in records:
            if record.seq <= self.after or self.has_end:
                continue
            if record.seq > self.after + 1:
                await self.gap()
            self.after, self.has_end = record.seq, record.terminal
            await self.tell(record)


async def follow(gateway: Gateway, run_id: str, follower: Follower) -> bool:
    """Follow a run from the event behind `follower.after` to its end. False if the gateway goes, and the run
    has not begun."""
    cursor = follower.after
    while True:
        with gateway.home.journals.live.watching(run_id) as watch:
            stands = await standing(gateway, run_id)
            reading = await _written(gateway, stands, follower)
            is_over = stands is None or stands.is_over
            if is_over and reading.terminal is None and cursor == reading.next_seq:
                return True  # that was the end that was told
            if cursor > reading.last_seq:
                follower.after = 0  # no event of this run that is known: better twice than never
            cursor = 0
            await follower.hear(reading.records)
            if reading.terminal is not None:
                return True
            if is_over:
                seq = max(reading.next_seq, follower.after + 1)
                await follower.hear([_end_of(run_id, stands, seq)])
                return True
            while not follower.has_end:
                records: Sequence[Record] | None = None
                with trio.move_on_after(HEARTBEAT):
                    records = await watch.next()
                if records is None:
                    await follower.silence()
                    stands = await standing(gateway, run_id)
                    if stands is None or stands.is_over:
                        break
                elif not records:
                    break
                else:
                    await follower.hear(records)
            if follower.has_end or watch.ended:
                return follower.has_end


async def _written(gateway: Gateway, stands: Standing | None, follower: Follower) -> Reading:
    """What its journal has."""
    if stands is None or stands.session_id is None or stands.turn is None:
        return Reading()
    try:
        return await gateway.home.journals.read(stands.session_id, stands.run_id)
    except JournalError as error:
        log.warning("a run journal could not be read", run=stands.run_id, error=str(error))
        await follower.gap()
        return Reading()


def _end_of(run_id: str, stands: Standing | None, seq: int) -> Record:
    """The end of a run whose journal has none: told, never stored."""
    end: Event
    if stands is None or stands.status == "cancelled":
        end = RunCancelled()
    elif stands.status == "completed":
        end = RunCompleted(stands.answer or "")
    else:
        code = INTERRUPTED if stands.status == "interrupted" else "failed"
        end = RunFailed(stands.error or "The run failed.", code)
    session_id = (stands.session_id if stands else None) or ""
    at = (stands.turn.ended_at if stands and stands.turn else None) or 0.0
    return Record(
        VERSION, f"{run_id}:{seq}", seq, run_id, session_id, end.event, end.event, at, True,
        terminal_state(end.event, end), end,
    )  # fmt: skip


def fields_of(record: Record) -> dict[str, Any]:
    """What an event says, as plain values."""
    fields: dict[str, Any] = msgspec.to_builtins(record.payload)
    return fields
