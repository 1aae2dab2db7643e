"""The shutdown of one gateway: the decision, its consequences, and the deadline of each step.

Built at the start, before anybody can request an ending, and handed to every task that must know whether and
by when the gateway ends.

It reads the clock, and waits for nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import trio

from ...state.tables.session_entry import ResumeReason
from .control import Control
from .endings_table import LAST_WORDS, Consequences, Ending, Supervisor, consequences
from .report import Report


@dataclass(frozen=True, slots=True)
class Shutdown:
    """The ending of this gateway, if there is one, and the deadlines that follow from it."""

    control: Control
    supervised_by: Supervisor
    report: Report = field(default_factory=Report)
    begun: trio.Event = field(default_factory=trio.Event)
    """Set when the ending has begun: from then on child processes get no grace of their own."""
    work_over: trio.Event = field(default_factory=trio.Event)
    """Set when the last turn has ended. A door then sends its last answers and closes."""

    def consequences(self, ending: Ending) -> Consequences:
        """Return the row of the table of endings for this ending."""
        return consequences(ending, self.supervised_by)

    def cut_reason(self) -> str:
        """Return the resume reason of a turn that is cut now."""
        ending = self.control.current
        return self.consequences(ending).resume_reason if ending else ResumeReason.CRASH

    def deadline(self, seconds: float, *, before_end: float) -> float:
        """Return the deadline for a step of at most `seconds`, leaving `before_end` seconds of the shutdown
        budget for later steps."""
        return min(trio.current_time() + seconds, self.control.end_by - before_end)

    def last_words_deadline(self) -> float:
        """Return the deadline for the last record of a turn or process that is cut."""
        return self.deadline(LAST_WORDS, before_end=1.0)
