"""Which cut turns are run again by themselves, as rules over plain values.

A cut turn left a mark on its session. The transcript says how far it came: by its tail, the last
row that a person, the agent or a tool wrote. Markers, which say what is known of a cut answer, and
system rows are no part of it.

    tail                                                            verdict
    assistant text with an explicit finish                          answered
    assistant with tool calls; a tool result; a person's message;
    text that is partial, recovered, or has no known finish         unfinished
    nothing but an earlier recovery note (imported data)            only a note
    a question to the person (`clarify`) that has no answer         waiting
    no row at all                                                   empty

Only unfinished work is run. Running what was answered would repeat a paid turn and its side
effects; running what waits for a person would answer in that person's place.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from ...state.rules.reset_policy import is_fresh
from ...state.tables.session_entry import ResumeReason
from ...state.tables.transcript import TranscriptRow

# Notes are made in `notes`, which is built on these rules; so what they open with stands here.
NOTE_OPENING = "[System note:"
_NOTE_ALONE = re.compile(re.escape(NOTE_OPENING) + r"[^\[\]]*\]")

_QUESTION = "clarify"
_ANSWERED = frozenset({"stop", "end", "end_turn", "completed", "stop_sequence"})


class Tail(Enum):
    """How far the conversation came."""

    ANSWERED = "answered"
    UNFINISHED = "unfinished"
    ONLY_NOTE = "only a note"
    WAITING = "waiting for the person"
    EMPTY = "empty"


class Action(Enum):
    """What is done with a marked session."""

    RUN = "run"
    WAIT = "wait"
    """Ask again when its platform is connected."""
    KEEP = "keep"
    """Do not run. The mark stays for the next message."""
    CLEAR = "clear"
    """Do not run. There is nothing to take up any more, so the mark goes and the session stays."""


class Verdict(Enum):
    """Whether a marked session is run by itself, and why."""

    UNFINISHED_WORK = Action.RUN, "its work is unfinished"
    LINK_DOWN = Action.WAIT, "its platform is not connected yet"
    NO_ORIGIN = Action.KEEP, "nobody knows which chat it belongs to"
    NOT_LET_IN = Action.KEEP, "its owner may not talk to the agent any more"
    FOREIGN_REASON = Action.KEEP, "it was marked for a reason that is not ours"
    HAD_ITS_RUN = Action.KEEP, "this cut had its one automatic run"
    FRUITLESS = Action.KEEP, "the automatic run that was cut had added nothing"
    QUESTION_OPEN = Action.KEEP, "it waits for the person's answer"
    SUSPENDED = Action.CLEAR, "it is suspended"
    STALE_MARK = Action.CLEAR, "it was cut too long ago"
    STALE_TAIL = Action.CLEAR, "nothing was said in it for too long"
    ANSWERED = Action.CLEAR, "it is answered"
    ONLY_A_NOTE = Action.CLEAR, "an earlier attempt to resume it left nothing but its note"
    EMPTY = Action.CLEAR, "nothing was said in it"

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
    """A marked session, as far as the rules look at it."""

    reason: str | None
    marked_at: float | None
    tail: Tail
    tail_at: float | None
    suspended: bool
    has_origin: bool
    link_up: bool
    let_in: bool
    """Its owner may still talk to the agent. A check that could not be made counts as no."""
    had_its_run: bool
    """An automatic run was charged to this cut, whatever came of it."""
    fruitless: bool
    """What was cut was itself an automatic run, and had not added a row yet."""


def may_resume(session: Marked, *, now: float, window: float) -> Verdict:
    """Whether this session is run by itself now.

    What clears the mark is looked at first: it stays true, however long a platform takes to
    connect. The link comes last, so that only a session which lacks nothing else is asked again.
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


def judge_tail(rows: Sequence[TranscriptRow]) -> Tail:
    """How far the conversation of these rows came."""
    said = _said(rows)
    if not said:
        return Tail.EMPTY
    last = said[-1]
    if last.role == "user":
        only_note = _NOTE_ALONE.fullmatch(last.content.strip())
        return Tail.ONLY_NOTE if only_note else Tail.UNFINISHED
    if last.role == "tool" or last.tool_calls:
        return Tail.WAITING if _question_open(said) else Tail.UNFINISHED
    # Of a recovered row the calls are known only by what was seen of them. A question that failed
    # reached nobody or was answered by nobody.
    if any(c.name == _QUESTION and (c.is_error or not c.done) for c in last.cards):
        return Tail.WAITING
    finished = (last.finish or "").lower() in _ANSWERED and not last.recovered
    return Tail.ANSWERED if finished and last.content.strip() else Tail.UNFINISHED


def tail_time(rows: Sequence[TranscriptRow]) -> float | None:
    """When the tail was written; None if there is none."""
    said = _said(rows)
    return said[-1].created_at if said else None


def ends_in_tool_result(rows: Sequence[TranscriptRow]) -> bool:
    """Whether the tail is a tool result that the model has not spoken about yet."""
    said = _said(rows)
    return bool(said) and said[-1].role == "tool"


def _said(rows: Sequence[TranscriptRow]) -> list[TranscriptRow]:
    return [row for row in rows if row.marker is None and row.role != "system"]


def _question_open(said: Sequence[TranscriptRow]) -> bool:
    """Whether the calls at the end hold a question without the person's answer. One is enough: the
    results of its neighbours do not answer it."""
    answered: set[str | None] = set()
    for row in reversed(said):
        if row.role != "tool":
            return any(c.name == _QUESTION and c.id not in answered for c in row.tool_calls)
        if row.status == "unanswered":
            return True
        answered.add(row.tool_call_id)
    return False
