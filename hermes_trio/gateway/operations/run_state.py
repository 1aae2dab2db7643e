"""The state of one run, found by its name; and the operations that end a run or drop it.

A run has a name before it begins: the name is promised when its message is stored. So its state is read from
the rows of its turn and of its message, together with the turn that runs now.

It may touch the rows of turns and messages, the journal of a run, and the handle of a running turn.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import Literal

from ...base.errors import JournalError
from ...base.events import RunCancelled
from ...base.world import World
from ...journal.writer import Journals, append_run_event
from ...state.db.database import Database
from ...state.db.engine import Db
from ...state.tables import inbox, sessions, transcript, turns
from ...state.tables.inbox import InboxState, Received
from ...state.tables.turns import Outcome, TurnRow
from ..session.running_turns import RunningTurns
from ..turn.handle import TurnHandle

RunStatus = Literal[
    "queued",
    "running",
    "waiting_for_approval",
    "stopping",
    "completed",
    "failed",
    "cancelled",
    "interrupted",
]
_STATUS_OF_OUTCOME: dict[Outcome, RunStatus] = {
    Outcome.ANSWERED: "completed",
    Outcome.STOPPED: "cancelled",
    Outcome.SUPERSEDED: "cancelled",
    Outcome.RESET: "cancelled",
    Outcome.TIMED_OUT: "failed",
    Outcome.FAILED: "failed",
    Outcome.CUT: "interrupted",
    Outcome.UNSTARTED: "interrupted",
}


@dataclass(frozen=True, slots=True)
class RunState:
    """One run at one moment."""

    run_id: str
    session_id: str | None
    """None while the run waits and its session does not exist yet."""
    session_key: str
    status: RunStatus
    turn: TurnRow | None
    message: Received | None
    """The message that the run answers, as long as it is kept."""
    answer: str | None
    resumed_as: str | None
    """The run that resumed this one after it was cut."""
    task: TurnHandle | None
    """The handle that can end the run, while it runs."""

    @property
    def is_over(self) -> bool:
        return self.status in ("completed", "failed", "cancelled", "interrupted")

    @property
    def waits(self) -> bool:
        """True if its message waits for a turn. It also waits if the run was cut before it began."""
        return self.message is not None and self.message.state is InboxState.PENDING

    @property
    def error(self) -> str | None:
        """The reason for the failure, as text."""
        if self.status == "interrupted":
            return "The gateway ended before the run did."
        return self.turn.reason if self.turn is not None and self.status == "failed" else None


@dataclass(frozen=True, slots=True)
class Runs:
    """The runs of one gateway."""

    database: Database
    world: World
    journals: Journals
    running: RunningTurns
    life: str | None = None
    """The life of this gateway if others share its store; None if it is alone, so that all runs are its."""
    look: float = 1.0
    """Seconds between two looks at the journal of a run of another gateway."""

    async def state(self, run_id: str) -> RunState | None:
        """Return the state of a run; None if no run of this name exists or was promised."""
        rows = await self.database.read(_look, run_id)
        if rows is None:
            return None
        task = self.running.handle(rows.key)
        if task is not None and task.run_id != run_id:
            task = None
        return RunState(
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

    async def stop(self, run_id: str) -> None:
        """End a run, or keep it from beginning."""
        stopped = await self.note_stop(run_id)
        if stopped is not None:
            await self.end_stopped(stopped)

    async def note_stop(self, run_id: str) -> RunState | None:
        """Store that a run is stopped, so that no later life resumes or begins it. Return the run for
        `end_stopped`; None if nothing is left to end. If the stop cannot be stored, a running turn is ended
        all the same."""
        state = await self.state(run_id)
        if state is None or state.session_id is None:
            return None
        if state.task is None:
            return state if await self.drop(state) else None
        try:
            await self.database.write(turns.note_stop, state.session_id, self.world.time())
        except BaseException:  # a disk that fails, or that hangs until the caller is cancelled
            state.task.end(Outcome.STOPPED)
            raise
        return state

    async def end_stopped(self, state: RunState) -> None:
        """End a run whose stop is stored."""
        if state.task is not None:
            state.task.end(Outcome.STOPPED)
        elif state.session_id is not None:
            # The run never began, so no turn writes its last event. If the journal cannot be written, a
            # follower finds the end in the rows.
            with suppress(JournalError):
                await append_run_event(self.journals, state.session_id, state.run_id, RunCancelled.event)

    async def drop(self, state: RunState) -> bool:
        """Drop the message of a run, and return True; return False if it does not wait."""
        if state.message is None:
            return False
        return await self.database.write(inbox.drop, state.message.inbox_id, self.world.time())


@dataclass(frozen=True, slots=True)
class _Rows:
    turn: TurnRow | None
    message: Received | None
    key: str
    session_id: str | None
    answer: str | None
    resumed_as: str | None


def _status(rows: _Rows, task: TurnHandle | None) -> RunStatus:
    # The row of a turn has its end before the journal has it: the run goes on until its task ends.
    if task is not None and task.scope.cancel_called:
        return "stopping"
    if task is not None and any(asked.kind == "approval" for asked in task.questions):
        return "waiting_for_approval"
    if task is not None and rows.turn is not None:
        return "running"
    if rows.turn is None:
        waits = rows.message is not None and rows.message.state is InboxState.PENDING
        return "queued" if waits else "cancelled"
    return "running" if rows.turn.outcome is None else _STATUS_OF_OUTCOME[rows.turn.outcome]


def _look(db: Db, run_id: str) -> _Rows | None:
    turn, message = turns.by_run(db, run_id), inbox.by_run(db, run_id)
    if turn is None:
        if message is None:
            return None
        entry = sessions.open_by_key(db, message.session_key)
        return _Rows(None, message, message.session_key, entry.session_id if entry else None, None, None)
    entry = sessions.by_id(db, turn.session_id)
    answer = transcript.answer_of(db, turn.turn_id) if turn.outcome is Outcome.ANSWERED else None
    resumed_as = _later_run(db, turn, message)
    return _Rows(turn, message, entry.session_key if entry else "", turn.session_id, answer, resumed_as)


def _later_run(db: Db, turn: TurnRow, message: Received | None) -> str | None:
    """Return the run that resumed a cut one. A run that was cut before it began is repeated with its
    message: then return the run of that."""
    if turn.outcome is Outcome.CUT:
        resume = turns.resume_of(db, turn.turn_id)
        return resume.run_id if resume else None
    if turn.outcome is Outcome.UNSTARTED and message is not None and message.turn_id is not None:
        later = turns.get(db, message.turn_id)
        return later.run_id if later is not None else None
    return None
