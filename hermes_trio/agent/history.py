"""Messages for a model, made from the rows of a transcript. Pure functions.

This module only says what the rows mean; `repaired`, in the providers, completes what a cut left incomplete.
A recovered row describes calls that were never stored. The model gets what was seen of them as text, because
the ids and arguments that a call needs are unknown.

A long conversation is sent in a shorter form: a summary of its beginning, and one line for each old result. A
`Compaction` says which rows are shortened; the rows themselves do not change. If the summary ends in the
middle of the last turn, the requests of the person in that turn are sent verbatim. So are unanswered requests
of earlier turns, except that very long ones are cut.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import dropwhile
from typing import Any

import msgspec

from ..base.messages import MessageEvent
from ..state.db.column_text import disarmed
from ..state.tables.compactions import Compaction, position
from ..state.tables.transcript import ToolCall, ToolCard, TranscriptRow
from .providers.model_messages import AssistantMessage, Message, ToolResult, UserMessage
from .providers.pictures import Picture, is_picture

WHOLE = Compaction()

_SHORT_RESULT = 300
"""Longest result, in characters, that is never shortened."""
_SHORT_ARGUMENTS = 600
_FIRST_REQUEST = 1_000
_LONGEST_EARLIER_REQUEST = 2_000
_BEGINNING = 120

_LABEL = (
    "[What follows is a summary of the earlier part of this conversation, which was taken out because it had "
    "become long. It is there to be looked things up in, and asks for nothing: what it says was requested "
    "has been dealt with, or is listed in it as open. Do none of it again. What the person wants now stands "
    "behind the summary.]"
)
_LABEL_END = "[End of the summary.]"


def disarmed_rows(rows: Iterable[TranscriptRow]) -> list[TranscriptRow]:
    """Return the rows for replay: no text of a person or a tool can pass for a note of the gateway."""
    checked = ((row, disarmed(row.content)) for row in rows)
    # Copy only the rows that change: each turn replays up to thousands of rows, and nearly none changes.
    return [row if text == row.content else replace(row, content=text) for row, text in checked]


def opening_of(turn_id: int, prompt: str, said: Iterable[MessageEvent] = ()) -> TranscriptRow:
    """Return the prompt of the turn as a row. It replaces the person's messages, because it may say more."""
    files = tuple(file for event in said for file in event.files)
    return TranscriptRow("user", prompt, 0, turn_id, files=files)


def messages_of(rows: Sequence[TranscriptRow], compaction: Compaction = WHOLE) -> list[Message]:
    """Return the messages for these rows, shortened as the compaction says."""
    split = first_kept(rows, compaction)
    return summary_of(rows, split, compaction) + messages_for(rows[split:], compaction)


def first_kept(rows: Sequence[TranscriptRow], compaction: Compaction, start: int = 0) -> int:
    """Return the index of the first row that the summary does not replace. It is not before `start`."""
    kept = (at for at in range(start, len(rows)) if position(rows[at]) >= compaction.kept)
    return next(kept, len(rows))


def summary_of(rows: Sequence[TranscriptRow], split: int, compaction: Compaction) -> list[Message]:
    """Return the messages that replace the rows before `split`; none if there is no summary."""
    if not compaction.summary:
        return []
    old, kept = rows[:split], rows[split:]
    messages: list[Message] = [UserMessage(_summary(old, compaction))]
    if not _has_new_request(kept):
        messages += [UserMessage(_request(row, rows)) for row in _unanswered(old)]
    return messages


def messages_for(rows: Iterable[TranscriptRow], compaction: Compaction) -> list[Message]:
    """Return the messages for rows that are kept."""
    return [made for row in rows if (made := message(row, compaction)) is not None]


def message(row: TranscriptRow, compaction: Compaction = WHOLE) -> Message | None:
    """Return the message for this row; None for a marker, which no model gets."""
    if row.marker is not None:
        return None
    is_short = position(row) < compaction.short
    if row.role == "user":
        return UserMessage(row.content, () if is_short else _pictures(row))
    if row.role == "assistant":
        calls = tuple(map(_short_call, row.tool_calls)) if is_short else row.tool_calls
        return AssistantMessage(_with_cards(row.content, row.cards), calls, row.opaque)
    if row.role == "tool":
        content = _short_result(row.content) if is_short else row.content
        return ToolResult(row.tool_call_id or "", content, is_error=row.status == "error")
    return None


def _pictures(row: TranscriptRow) -> tuple[Picture, ...]:
    """Return the pictures of a row. Its text names all of its files."""
    return tuple(Picture(file.name) for file in row.files if is_picture(file.name, file.mime_type))


def _summary(old: Iterable[TranscriptRow], compaction: Compaction) -> str:
    """Return the text that replaces the old rows: the first request, the summary and the open to-do list."""
    first = next((row.content for row in old if row.role == "user" and row.content.strip()), "")
    began = f"It began with (quoted): {json.dumps(first[:_FIRST_REQUEST], ensure_ascii=False)}"
    todo = f"The list of what was still to be done then:\n{compaction.todo}"
    parts = [_LABEL, *([began] if first else []), compaction.summary, *([todo] if compaction.todo else [])]
    return disarmed("\n\n".join([*parts, _LABEL_END]))


def _unanswered(rows: Sequence[TranscriptRow]) -> list[TranscriptRow]:
    """Return the rows of the person after the last answer."""
    requests: list[TranscriptRow] = []
    for row in reversed(rows):
        if _is_answer(row):
            break
        if row.role == "user" and row.content.strip():
            requests.insert(0, row)
    # There may be very many, as when the turn is told of the output of its processes. Keep the openings of
    # the last turns, and the latest rows.
    openings = [at for at, row in enumerate(requests) if at == 0 or requests[at - 1].turn_id != row.turn_id]
    return [row for at, row in enumerate(requests) if at in openings[-4:] or at >= len(requests) - 2]


def _request(row: TranscriptRow, rows: Sequence[TranscriptRow]) -> str:
    """Return the text of an unanswered request: verbatim if the running turn works on it, else of limited
    length. A turn works on its own requests, and on those of cut turns if it resumes one, which the
    gateway's note in its opening says. The limit keeps a request that was too long for the model from being
    in the way for ever."""
    opening = next(one for one in rows if one.turn_id == rows[-1].turn_id)
    has_note = disarmed(opening.content) != opening.content
    if row.turn_id == opening.turn_id or has_note:
        return row.content
    return middle_cut(row.content, _LONGEST_EARLIER_REQUEST)


def middle_cut(text: str, most: int) -> str:
    """Return the text; if it is longer than about `most` characters, without its middle."""
    if len(text) <= most:
        return text
    return f"{text[: most // 2]}\n[... {len(text) - most} characters ...]\n{text[-(most // 2) :]}"


def _has_new_request(rows: Iterable[TranscriptRow]) -> bool:
    """Return whether these rows hold a request of the person after an answer."""
    from_answer = dropwhile(lambda row: not _is_answer(row), rows)
    return any(row.role == "user" for row in from_answer)


def _is_answer(row: TranscriptRow) -> bool:
    """Return whether this row ended a turn with an answer."""
    return row.role == "assistant" and not row.tool_calls and not row.recovered


def _short_result(content: str) -> str:
    """Return the result; if it is long, one line in its place."""
    if len(content) <= _SHORT_RESULT:
        return content
    beginning = json.dumps(content[:_BEGINNING], ensure_ascii=False)
    return f"[A result of {len(content)} characters, left out to make room. It began with {beginning}]"


def _short_call(call: ToolCall) -> ToolCall:
    """Return the call with its long arguments cut."""
    if len(call.arguments) <= _SHORT_ARGUMENTS:
        return call
    try:
        arguments = msgspec.json.decode(call.arguments, type=dict[str, Any])
    except (msgspec.MsgspecError, UnicodeEncodeError):
        return ToolCall(call.id, call.name, "{}")
    short = {key: _short_value(value) for key, value in arguments.items()}
    return ToolCall(call.id, call.name, json.dumps(short))


def _short_value(value: object) -> object:
    """Return the value of an argument; if it is long, only its beginning."""
    text = value if isinstance(value, str) else json.dumps(value)
    return value if len(text) <= _BEGINNING else f"{text[:_BEGINNING]} [... {len(text)} characters]"


def _with_cards(text: str, cards: Sequence[ToolCard]) -> str:
    """Return the text of a recovered row with what was seen of its calls."""
    return "\n".join([text, *map(_card_text, cards)]) if cards else text


def _card_text(card: ToolCard) -> str:
    """Return what was seen of a call, as a sentence."""
    if not card.done:
        return f"[{card.name} was running when this was interrupted: {card.preview}. Its effect is unknown.]"
    how = "failed" if card.is_error else "ended"
    return f"[{card.name} {how}: {card.preview}. {card.snippet}]"
