"""The report of a stop: the duration of each phase, and the turns that ended last.

It reads the clock and stores nothing.
"""

from __future__ import annotations

import math

import msgspec
import trio

LAST_TURNS = 20
"""Number of turns in the report: those that ended last."""


class Report(msgspec.Struct):
    """Times in milliseconds since the stop was requested. Stored with the ending."""

    began: float = math.inf
    """Time of the request, on the clock of the event loop; infinite while no stop was requested."""
    turns: int = 0
    """Number of running turns at that time."""
    phases: dict[str, float] = {}
    last_turns: dict[str, float] = {}

    @property
    def has_begun(self) -> bool:
        return math.isfinite(self.began)

    def begin(self, at: float, turns: int) -> None:
        """Begin the report of a stop that was requested at this time."""
        self.began, self.turns = at, turns

    def end_phase(self, phase: str) -> None:
        """Note that a phase ends now."""
        if self.has_begun:
            self.phases[phase] = self._elapsed()

    def end_turn(self, session_key: str) -> None:
        """Note that a turn ends now."""
        if self.has_begun:
            self.last_turns.pop(session_key, None)
            self.last_turns[session_key] = self._elapsed()
            if len(self.last_turns) > LAST_TURNS:
                del self.last_turns[next(iter(self.last_turns))]

    def _elapsed(self) -> float:
        return round((trio.current_time() - self.began) * 1000, 1)
