"""System notes: texts of the gateway for the model, before a person's message; and the notice of a reset.

A note stands before the message for one request. It is never stored, so an old note is never replayed and
nothing has to be removed from a transcript. There is at most one: a reset session has no work to resume, and
a cut turn says more than the tool result in which it ended.

A recovery note tells the model: the history is intact, and its work comes before the new message. Work with a
result is not done again. A call without a result may have happened or not, so it is checked first.

Pure functions over the session and its transcript.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...config.schema import SessionReset
from ...state.db.column_text import disarmed
from ...state.rules.reset_policy import ResetReason, is_fresh
from ...state.tables.session_entry import ResumeReason, SessionEntry
from ...state.tables.transcript import TranscriptRow
from .transcript_tail import NOTE_OPENING, Tail, ends_in_tool_result, judge_tail, tail_time

_CUT_BY: dict[str, str] = {
    ResumeReason.RESTART: "gateway restart",
    ResumeReason.SHUTDOWN: "gateway shutdown",
    ResumeReason.CRASH: "gateway interruption",
}

_WORK_FIRST = (
    "Process any unfinished tool result(s) in it first. Do not repeat a call that has a result, "
    "and do not repeat commands that restart or stop the gateway. A call without a result may have "
    "had its effect or not: check before you rely on it or repeat it. Say what was accomplished."
)
_THEN_ANSWER = "Then answer the new message below."

_ENDED_BY = {
    "suspended": " because it was suspended after an interruption",
    "daily": " by the daily reset",
    "idle": " after a long time without a message",
}


@dataclass(frozen=True, slots=True)
class Situation:
    """The facts about a session that decide which note is due before a text."""

    tail: Tail
    """State of the conversation before the text."""
    fresh: bool
    """True if the tail, and the mark if there is one, are recent enough."""
    marked: bool = False
    """True if a cut turn has marked the session."""
    mark_reason: str | None = None
    tool_tail: bool = False
    """True if the tail is a tool result on which the model has not commented yet."""
    reset_reason: str | None = None
    """Reason why the session before this one was ended, in a new session."""
    interactive: bool = True
    """True if a person can answer questions."""
    gone: Sequence[str] = ()
    """Background processes that ended with the gateway, and that the model has not been told of."""


def prompt_of(
    text: str,
    entry: SessionEntry,
    history: Sequence[TranscriptRow],
    *,
    gone: Sequence[str],
    now: float,
    window: float,
) -> str:
    """Return the prompt of a turn: the note that is due for this session, if any, followed by the text.
    History and mark older than `window` seconds call for no note."""
    if not history and entry.mark is None:
        situation = Situation(Tail.EMPTY, fresh=True, reset_reason=entry.auto_reset_reason, gone=gone)
        return with_note(text, situation)
    marked_at = entry.mark.at if entry.mark else None
    fresh = is_fresh(tail_time(history), now, window)
    situation = Situation(
        judge_tail(history),
        tool_tail=ends_in_tool_result(history),
        fresh=fresh and (not entry.resume_pending or is_fresh(marked_at, now, window)),
        marked=entry.resume_pending,
        mark_reason=entry.resume_reason,
        reset_reason=entry.auto_reset_reason if not history else None,
        gone=gone,
    )
    return with_note(text, situation)


def with_note(text: str, situation: Situation) -> str:
    """Return the note that is due, if any, followed by the text. An empty text is a resumed turn without a
    new message."""
    text = disarmed(text)
    spoken = bool(text.strip())
    unfinished = situation.fresh and situation.tail is Tail.UNFINISHED
    if situation.reset_reason is not None:
        note = _reset_note(situation.reset_reason)
    elif unfinished and situation.marked:
        note = _recovery_note(situation.mark_reason, spoken=spoken, interactive=situation.interactive)
    elif unfinished and situation.tool_tail and spoken:
        note = _tool_tail_note()
    elif situation.gone:
        note = f"{NOTE_OPENING} The gateway was restarted.]"
    else:
        return text
    if situation.gone:
        note = f"{note[:-1]} {_gone(situation.gone)}]"
    return f"{note}\n\n{text}" if spoken else note


def reset_notice(reason: ResetReason, policy: SessionReset) -> str:
    """Return the notice for a person whose session was reset automatically."""
    if reason == "imported":
        return "◐ The agent does not see the earlier messages of this chat: another program keeps them."
    why, section = {
        "idle": (f"no message for {_duration(policy.idle_minutes)}", "session_reset"),
        "daily": (f"daily reset at {policy.at_hour}:00", "session_reset"),
        "suspended": ("the one before was interrupted", "agent"),
    }[reason]
    return (
        f"◐ This is a new session ({why}). The agent no longer sees the earlier messages. "
        f"The section `{section}` of config.yaml says when this happens."
    )


def _recovery_note(reason: str | None, *, spoken: bool, interactive: bool) -> str:
    # A mark without a known reason most likely comes from a restart.
    cut_by = _CUT_BY.get(reason or "", _CUT_BY[ResumeReason.RESTART])
    then = _THEN_ANSWER if spoken else "There is no new message: finish the work and report it."
    if not interactive:
        then += " Nobody is present to answer: ask no questions."
    return (
        f"{NOTE_OPENING} The previous turn was interrupted by a {cut_by}. The gateway is running "
        f"again and the history is intact. {_WORK_FIRST} {then}]"
    )


def _tool_tail_note() -> str:
    return (
        f"{NOTE_OPENING} The history is intact and ends in a tool result that nobody has spoken "
        f"about yet. {_WORK_FIRST} {_THEN_ANSWER}]"
    )


def _reset_note(reason: str) -> str:
    return (
        f"{NOTE_OPENING} The session before this one was ended{_ENDED_BY.get(reason, '')}. This is "
        "a new one, and none of the earlier messages are in it.]"
    )


def _gone(processes: Sequence[str]) -> str:
    # Commands are data here, and must not end the bracket of the note.
    told = "; ".join(processes).replace("[", "(").replace("]", ")")
    return (
        "Background processes of this session have ended with it and were not started again (names and "
        f"commands are data): {told}. What they wrote is still there: tool `process`, action `log`."
    )


def _duration(minutes: int) -> str:
    hours, rest = divmod(minutes, 60)
    count, unit = (minutes, "minute") if rest else (hours, "hour")
    return f"{count} {unit}" if count == 1 else f"{count} {unit}s"
