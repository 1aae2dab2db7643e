"""The handle of a turn: its messages, and the means by which other tasks end it, steer it and answer its
questions. It stores nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import trio

from ...base.messages import SessionSource
from ...state.tables.inbox import Received
from ...state.tables.turns import Outcome
from .open_question import OpenQuestion


@dataclass(slots=True)
class TurnHandle:
    """The handle of a turn, made by its session before the turn begins."""

    rows: Sequence[Received]
    """The messages that it answers; none for a resumed turn."""
    source: SessionSource | None = None
    """Source to which the answer goes: that of the last message; for a resumed turn, the origin of its
    session."""
    session_id: str = ""
    """Id of its session, once it has begun; of a resumed turn, from the start."""
    resumes: int | None = None
    """Id of the cut turn that it resumes."""
    run_id: str = ""
    """Id of its run, once it has one."""
    has_ended: bool = False
    """True once its end is stored. Its task may go on for a moment, and nothing can interrupt it any more."""
    began: float = field(default_factory=trio.current_time)
    scope: trio.CancelScope = field(default_factory=trio.CancelScope)
    """Ends the agent and everything about it. Its deadline is the limit of inactivity."""
    ended_by: Outcome = Outcome.TIMED_OUT
    """Outcome of the turn if that scope is cancelled."""
    questions: list[OpenQuestion] = field(default_factory=list)
    """Questions that wait for a person's answer, oldest first."""
    steered: list[int] = field(default_factory=list)
    """Ids of the messages that are to join it; it takes them after the next tool result."""
    watch_matches: list[str] = field(default_factory=list)
    """Matches of its output watches; those that it does not take are dropped with it."""
    uninterruptible: list[str] = field(default_factory=list)
    """Reasons why a new message must not interrupt it now."""

    def end(self, outcome: Outcome) -> None:
        """End the turn from outside: a person stopped it, or a new message replaces it. The first call
        counts."""
        if not self.scope.cancel_called:
            self.ended_by = outcome
            self.scope.cancel(reason=outcome)
