"""The transcript: what was said in a session, row by row, and what stands there where an answer was
cut.

A row belongs to a turn and has a place in it: the seq of the run's last event that the row tells of
(0 for what came before the first event, the person's message above all). So rows are ordered by
(turn, place), a row that is found later still stands where it belongs, and what a run journal knows
beyond the transcript is exactly its events behind the last place.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Role = Literal["user", "assistant", "tool", "system"]

MARKER_PLACE = 1 << 40
"""The place of a turn's marker: behind everything that may still be found of that turn."""


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call the model asked for: its id joins it to the row that holds its result."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class Message:
    """One row of a transcript."""

    role: Role
    content: str
    created_at: float
    turn_id: int | None = None
    run_id: str | None = None
    place: int = 0
    reasoning: str | None = None
    tool_calls: tuple[ToolCall, ...] = ()
    """Assistant rows: what the model asked for, whole (a partial call is never stored)."""
    finish: str | None = None
    """Assistant rows: why the model stopped, as the provider said it; None while unknown."""
    tool_call_id: str | None = None
    tool_name: str | None = None
    status: str | None = None
    """Tool rows: `ok`, `error`, or `unanswered` (a question the person did not answer)."""
    recovered: bool = False
    """Found in the run journal after its turn was cut."""
    marker: str | None = None
    """Not None on the one row that says what is known of a cut answer; never sent to a model."""
    id: int | None = None

    @property
    def type(self) -> str:
        """`interrupted` on a marker, `message` on everything else."""
        return "message" if self.marker is None else "interrupted"
