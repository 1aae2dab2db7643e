"""Following one run from any of its events to its end.

Past events come from the run's journal, new ones from the live broadcast. A follower that hears nothing for
a while reads the run's state from the database again, so it also gets an end for a run that has none in its
journal: the message was dropped before the run began, or the disk did not take the last record. The events of
a run in another gateway are read from its journal at each look, and those of a lost one after it is over.

It reads journals and rows, and stores nothing.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import trio

from ...base.errors import JournalError
from ...base.events import INTERRUPTED, Event, RunCancelled, RunCompleted, RunFailed
from ...journal.broadcast import Subscription
from ...journal.reader import Reading
from ...journal.record import VERSION, Record, terminal_state
from ...log import Log
from .run_state import Runs, RunState

HEARTBEAT = 15.0

log = Log(__name__)


@dataclass(slots=True)
class RunFollower:
    """The callbacks of one follower, and how far it has come."""

    tell: Callable[[Record], Awaitable[None]]
    """Called with each event of the run, in order, up to the last one."""
    gap: Callable[[], Awaitable[None]]
    """Called where events are missing that cannot be read any more."""
    silence: Callable[[], Awaitable[None]]
    """Called after `HEARTBEAT` seconds without an event."""
    after: int = 0
    """The seq of the last event that was told."""
    has_end: bool = False

    async def hear(self, records: Iterable[Record]) -> None:
        """Tell the records that were not told before."""
        for record in records:
            if record.seq <= self.after or self.has_end:
                continue
            if record.seq > self.after + 1:
                await self.gap()
            self.after, self.has_end = record.seq, record.terminal
            await self.tell(record)


async def follow(runs: Runs, run_id: str, follower: RunFollower) -> bool:
    """Follow a run from the event after `follower.after` to its end. Return False if the gateway ends before
    the run began."""
    cursor = follower.after
    while True:
        with runs.journals.live.watching(run_id) as watch:
            state = await runs.state(run_id)
            reading = await _read(runs, state, follower)
            is_over = state is None or state.is_over
            if is_over and reading.terminal is None and cursor == reading.next_seq:
                return True  # the cursor is that of a made-up end, which was told before
            if cursor > reading.last_seq:
                follower.after = 0  # the cursor is unknown: tell all events again rather than none
            cursor = 0
            await follower.hear(reading.records)
            if reading.terminal is not None:
                return True
            if is_over:
                seq = max(reading.next_seq, follower.after + 1)
                await follower.hear([_made_up_end(run_id, state, seq)])
                return True
            within = silence_of(runs, state)
            if await follow_from_start(runs, run_id, follower, watch, within) or watch.ended:
                return follower.has_end


async def follow_from_start(
    runs: Runs, run_id: str, follower: RunFollower, watch: Subscription, within: float = HEARTBEAT
) -> bool:
    """Tell the live events of a run until its end, and return True. Return False if there is more to read:
    the run is over, and its last event was not heard; or it is not heard here; or the subscription was too
    slow. `within` are the seconds of silence after which this is found out."""
    while not follower.has_end:
        records: Sequence[Record] | None = None
        with trio.CancelScope(deadline=trio.current_time() + within):  # needs less than `move_on_after`
            records = await watch.next()
        if records is None:
            await follower.silence()
            state = await runs.state(run_id)
            within = silence_of(runs, state)
            if state is None or state.is_over or within < HEARTBEAT:
                break
        elif not records:
            break
        else:
            await follower.hear(records)
    return follower.has_end


def silence_of(runs: Runs, state: RunState | None) -> float:
    """Return the seconds to wait for the next event of a run before its rows are read again. The events of
    another gateway are not heard here, and a waiting run may begin there."""
    is_own = state is not None and state.turn is not None and state.turn.life == runs.life
    return HEARTBEAT if runs.life is None or is_own else min(runs.look, HEARTBEAT)


async def _read(runs: Runs, state: RunState | None, follower: RunFollower) -> Reading:
    """Read the journal of a run."""
    if state is None or state.session_id is None or state.turn is None:
        return Reading()
    try:
        return await runs.journals.read(state.session_id, state.run_id)
    except JournalError as error:
        log.warning("run journal not readable", run=state.run_id, error=str(error))
        await follower.gap()
        return Reading()


def _made_up_end(run_id: str, state: RunState | None, seq: int) -> Record:
    """Return an end for a run whose journal has none. It is told and never stored."""
    end: Event
    if state is None or state.status == "cancelled":
        end = RunCancelled()
    elif state.status == "completed":
        end = RunCompleted(state.answer or "")
    else:
        code = INTERRUPTED if state.status == "interrupted" else "failed"
        end = RunFailed(state.error or "The run failed.", code)
    session_id = (state.session_id if state else None) or ""
    at = (state.turn.ended_at if state and state.turn else None) or 0.0
    return Record(
        VERSION, f"{run_id}:{seq}", seq, run_id, session_id, end.event, end.event, at, True,
        terminal_state(end.event, end), end,
    )  # fmt: skip


def fields_of(record: Record) -> dict[str, Any]:
    """Return the fields of an event as plain values."""
    fields: dict[str, Any] = msgspec.to_builtins(record.payload)
    return fields
