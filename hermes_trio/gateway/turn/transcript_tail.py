"""The tail of a transcript: the state of the conversation before a turn was cut. Pure functions over rows.

The tail is the last row that a person, the agent or a tool wrote. Markers, which tell the fate of a cut
answer, and system rows do not count.

| tail | |
|---|---|
| assistant text with an explicit finish | answered |
| assistant with tool calls; a tool result; a person's message; text that is partial, recovered, or has no known finish | unfinished |
| only an earlier recovery note (imported data) | only a note |
| a question to the person (`clarify`) without an answer | waiting |
| no row | empty |
"""  # noqa: E501 - a table

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from enum import Enum

from ...state.tables.transcript import TranscriptRow

NOTE_OPENING = "[System note:"
"""First words of every note of the gateway to the model; `system_notes` writes them."""
_NOTE_ALONE = re.compile(re.escape(NOTE_OPENING) + r"[^\[\]]*\]")

_QUESTION = "clarify"
_ANSWERED = frozenset({"stop", "end", "end_turn", "completed", "stop_sequence"})


class Tail(Enum):
    """The state of a conversation at its tail."""

    ANSWERED = "answered"
    UNFINISHED = "unfinished"
    ONLY_NOTE = "only a note"
    WAITING = "waiting for the person"
    EMPTY = "empty"


def judge_tail(rows: Sequence[TranscriptRow]) -> Tail:
    """Return the state of the conversation of these rows at its tail."""
    last = next(_spoken(rows), None)
    if last is None:
        return Tail.EMPTY
    if last.role == "user":
        only_note = _NOTE_ALONE.fullmatch(last.content.strip())
        return Tail.ONLY_NOTE if only_note else Tail.UNFINISHED
    if last.role == "tool" or last.tool_calls:
        return Tail.WAITING if _has_open_question(_spoken(rows)) else Tail.UNFINISHED
    # The calls of a recovered row are known only as a person saw them. A question that failed or did not end
    # was answered by nobody.
    if any(c.name == _QUESTION and (c.is_error or not c.done) for c in last.cards):
        return Tail.WAITING
    finished = (last.finish or "").lower() in _ANSWERED and not last.recovered
    return Tail.ANSWERED if finished and last.content.strip() else Tail.UNFINISHED


def tail_time(rows: Sequence[TranscriptRow]) -> float | None:
    """Return the time of the tail; None if there is none."""
    last = next(_spoken(rows), None)
    return last.created_at if last is not None else None


def ends_in_tool_result(rows: Sequence[TranscriptRow]) -> bool:
    """Return True if the tail is a tool result on which the model has not commented yet."""
    last = next(_spoken(rows), None)
    return last is not None and last.role == "tool"


def _spoken(rows: Sequence[TranscriptRow]) -> Iterator[TranscriptRow]:
    """Yield the rows that a person, the agent or a tool wrote, the last one first. Only some are needed of a
    long transcript."""
    return (row for row in reversed(rows) if row.marker is None and row.role != "system")


def _has_open_question(spoken: Iterator[TranscriptRow]) -> bool:
    """Return True if the last calls hold a question without an answer. The results of its neighbours do not
    answer it."""
    answered: set[str | None] = set()
    for row in spoken:
        if row.role != "tool":
            return any(c.name == _QUESTION and c.id not in answered for c in row.tool_calls)
        if row.status == "unanswered":
            return True
        answered.add(row.tool_call_id)
    return False
