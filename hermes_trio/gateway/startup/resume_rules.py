"""The rules by which a cut turn is resumed automatically: pure functions over plain values.

A cut turn leaves a mark on its session; the tail of the transcript says how far it came. Only unfinished work
is resumed. Running an answered turn again would repeat its cost and its side effects, and running a turn that
waits for a person would answer in that person's place.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from ...state.rules.reset_policy import is_fresh
from ...state.tables.session_entry import ResumeReason
from ..turn.transcript_tail import Tail


class Action(Enum):
    """The action for a marked session."""

    RUN = "run"
    WAIT = "wait"
    """Decide again when its platform connects."""
    KEEP = "keep"
    """Do not run. The mark stays for the next message."""
    CLEAR = "clear"
    """Do not run. No work is left, so the mark is removed and the session stays."""


class Verdict(Enum):
    """The decision about a marked session: its action, and the reason."""

    UNFINISHED_WORK = Action.RUN, "its work is unfinished"
    LINK_DOWN = Action.WAIT, "its platform is not connected yet"
    NO_ORIGIN = Action.KEEP, "its chat is unknown"
    NOT_LET_IN = Action.KEEP, "its owner lost access to the agent"
    FOREIGN_REASON = Action.KEEP, "it was marked for an unknown reason"
    HAD_ITS_RUN = Action.KEEP, "this cut already had its one automatic run"
    FRUITLESS = Action.KEEP, "the automatic run that was cut had added no row"
    QUESTION_OPEN = Action.KEEP, "a question to the person is open"
    SUSPENDED = Action.CLEAR, "it is suspended"
    STALE_MARK = Action.CLEAR, "it was cut too long ago"
    STALE_TAIL = Action.CLEAR, "its last message is too old"
    ANSWERED = Action.CLEAR, "it is answered"
    ONLY_A_NOTE = Action.CLEAR, "an earlier attempt to resume it left only its note"
    EMPTY = Action.CLEAR, "its transcript is empty"

    def __init__(self, action: Action, why: str) -> None:
        self.action, self.why = action, why


_BY_TAIL = {
    Tail.ANSWERED: Verdict.ANSWERED,
    Tail.ONLY_NOTE: Verdict.ONLY_A_NOTE,
    Tail.EMPTY: Verdict.EMPTY,
    Tail.WAITING: Verdict.QUESTION_OPEN,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Marked:
    """The facts about a marked session that the rules use."""

    reason: str | None
    marked_at: float | None
    tail: Tail
    tail_at: float | None
    suspended: bool
    has_origin: bool
    link_up: bool
    let_in: bool
    """True if its owner still has access. A check that failed counts as False."""
    had_its_run: bool
    """True if this cut had an automatic run, whatever its outcome."""
    fruitless: bool
    """True if the cut turn was itself an automatic run that had added no row."""


def may_resume(session: Marked, *, now: float, window: float) -> Verdict:
    """Decide whether the cut turn of this session is resumed automatically now.

    Reasons that remove the mark come first: they stay true however long a platform takes to connect. The link
    comes last, so that only a session that lacks nothing else is asked again.
    """
    if session.suspended:
        return Verdict.SUSPENDED
    if not is_fresh(session.marked_at, now, window):
        return Verdict.STALE_MARK
    if not is_fresh(session.tail_at, now, window):
        return Verdict.STALE_TAIL
    if session.tail is not Tail.UNFINISHED:
        return _BY_TAIL[session.tail]
    needs = (
        (session.reason is None or session.reason in set(ResumeReason), Verdict.FOREIGN_REASON),
        (not session.had_its_run, Verdict.HAD_ITS_RUN),
        (not session.fruitless, Verdict.FRUITLESS),
        (session.has_origin, Verdict.NO_ORIGIN),
        (session.let_in, Verdict.NOT_LET_IN),
        (session.link_up, Verdict.LINK_DOWN),
    )
    return next((verdict for met, verdict in needs if not met), Verdict.UNFINISHED_WORK)
