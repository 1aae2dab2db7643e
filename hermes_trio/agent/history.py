"""From the rows of a transcript to what a model is sent. Pure.

What a cut left behind is put right by `repaired`, in the providers; here it is only said what the rows
mean. A recovered row tells of calls that nobody stored: the model is told what was seen of them, as text,
because nothing is known that a call would have to have.

A conversation that has become long is sent in a shorter form: a summary for what came first, one line for
an old result. How much of it, a `Compaction` says; the rows themselves stay as they are. Where the summary
ends in the middle of the last turn, what the person asked for in it is sent as they said it; what nobody
has answered in the turns before it, too, but for what is very long.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import dropwhile
from typing import Any

import msgspec

from ..state.db.column_text import disarmed
from ..state.tables.compactions import Compaction, position
from ..state.tables.transcript import ToolCall, ToolCard, TranscriptRow
from .providers.model import AssistantMessage, Message, ToolResult, UserMessage

WHOLE = Compaction()

_SHORT_RESULT = 300
"""A result of at most so many characters stays as it is."""
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
    """Rows as they are replayed: nothing that people or tools have said passes for a note of the gateway."""
    said = ((row, disarmed(row.content)) for row in rows)
    # Nearly all are as they were, and there may be thousands in each turn.
    return [row if text == row.content else replace(row, content=text) for row, text in said]


def opening_of(turn_id: int, prompt: str) -> TranscriptRow:
    """What is asked now, as the row that it stands in place of: the prompt may say more than the person."""
    return TranscriptRow("user", prompt, 0, turn_id)


def messages_of(rows: Sequence[TranscriptRow], compaction: Compaction = WHOLE) -> list[Message]:
    """What has been said, shortened so."""
    split = next((at for at, row in enumerate(rows) if position(row) >= compaction.kept), len(rows))
    old, kept = rows[:split], rows[split:]
    messages: list[Message] = []
    if compaction.summary:
        messages.append(UserMessage(_summarised(old, compaction)))
        if not _goes_on_to_another(kept):
            messages += [UserMessage(_asked(row, rows)) for row in _unanswered(old)]
    return messages + [made for row in kept if (made := message(row, compaction)) is not None]


def message(row: TranscriptRow, compaction: Compaction = WHOLE) -> Message | None:
    """What a model is sent of this row; None for what is none of its business."""
    if row.marker is not None:
        return None
    short = position(row) < compaction.short
    if row.role == "user":
        return UserMessage(row.content)
    if row.role == "assistant":
        calls = tuple(map(_short_call, row.tool_calls)) if short else row.tool_calls
        return AssistantMessage(_with_cards(row.content, row.cards), calls, row.opaque)
    if row.role == "tool":
        content = _line(row.content) if short else row.content
        return ToolResult(row.tool_call_id or "", content, is_error=row.status == "error")
    return None


def _summarised(old: Iterable[TranscriptRow], compaction: Compaction) -> str:
    first = next((row.content for row in old if row.role == "user" and row.content.strip()), "")
    began = f"It began with (quoted): {json.dumps(first[:_FIRST_REQUEST], ensure_ascii=False)}"
    todo = f"The list of what was still to be done then:\n{compaction.todo}"
    parts = [_LABEL, *([began] if first else []), compaction.summary, *([todo] if compaction.todo else [])]
    return disarmed("\n\n".join([*parts, _LABEL_END]))


def _unanswered(rows: Sequence[TranscriptRow]) -> list[TranscriptRow]:
    """What the person said there and had no answer to."""
    asked: list[TranscriptRow] = []
    for row in reversed(rows):
        if _is_answer(row):
            break
        if row.role == "user" and row.content.strip():
            asked.insert(0, row)
    # Of very many, as where a turn was told of its processes: what the last turns began with, and the latest.
    began = [at for at, row in enumerate(asked) if at == 0 or asked[at - 1].turn_id != row.turn_id]
    return [row for at, row in enumerate(asked) if at in began[-4:] or at >= len(asked) - 2]


def _asked(row: TranscriptRow, rows: Sequence[TranscriptRow]) -> str:
    """What a person said there, as they said it if that is what is being worked on: in the turn that runs, or
    in a cut one which it takes up, as the gateway's note in its opening says. What was too long for any model
    once must not be so for ever."""
    opening = next(one for one in rows if one.turn_id == rows[-1].turn_id)
    if row.turn_id == opening.turn_id or disarmed(opening.content) != opening.content:
        return row.content
    return middle_cut(row.content, _LONGEST_EARLIER_REQUEST)


def middle_cut(text: str, most: int) -> str:
    """A text that is no longer than so many characters, more or less."""
    if len(text) <= most:
        return text
    return f"{text[: most // 2]}\n[... {len(text) - most} characters ...]\n{text[-(most // 2) :]}"


def _goes_on_to_another(rows: Iterable[TranscriptRow]) -> bool:
    """Whether something is asked in these that is not what was asked before."""
    from_answer = dropwhile(lambda row: not _is_answer(row), rows)
    return any(row.role == "user" for row in from_answer)


def _is_answer(row: TranscriptRow) -> bool:
    return row.role == "assistant" and not row.tool_calls and not row.recovered


def _line(content: str) -> str:
    """A result that was long, as one line."""
    if len(content) <= _SHORT_RESULT:
        return content
    beginning = json.dumps(content[:_BEGINNING], ensure_ascii=False)
    return f"[A result of {len(content)} characters, left out to make room. It began with {beginning}]"


def _short_call(call: ToolCall) -> ToolCall:
    if len(call.arguments) <= _SHORT_ARGUMENTS:
        return call
    try:
        arguments = msgspec.json.decode(call.arguments, type=dict[str, Any])
    except (msgspec.MsgspecError, UnicodeEncodeError):
        return ToolCall(call.id, call.name, "{}")
    return ToolCall(call.id, call.name, json.dumps({key: _cut(value) for key, value in arguments.items()}))


def _cut(value: object) -> object:
    text = value if isinstance(value, str) else json.dumps(value)
    return value if len(text) <= _BEGINNING else f"{text[:_BEGINNING]} [... {len(text)} characters]"


def _with_cards(text: str, cards: Sequence[ToolCard]) -> str:
    return "\n".join([text, *map(_seen, cards)]) if cards else text


def _seen(card: ToolCard) -> str:
    if not card.done:
        return f"[{card.name} was running when this was interrupted: {card.preview}. Its effect is unknown.]"
    how = "failed" if card.is_error else "ended"
    return f"[{card.name} {how}: {card.preview}. {card.snippet}]"
