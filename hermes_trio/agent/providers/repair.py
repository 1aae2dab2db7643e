"""Repair of a conversation, so that every server accepts it. A pure function: it completes what a cut, an
import or a change of the model left incomplete, and changes nothing in a complete conversation.

The rules are the strictest ones of all servers together: a person has the first and the last message; people
and model take turns; nothing is empty; each call has one result, directly after it, and no result is without
its call; ids are unique; ids and names are short and plain.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from ...state.tables.transcript import ToolCall
from .model import AssistantMessage, Message, ToolResult, UserMessage

NOT_SEEN = "No result: whether this ran, and what came of it, is not known."
_EARLIER = "(The conversation began earlier.)"
_GO_ON = "Go on."
_NOTHING = "(no output)"
_LONGEST_ID = 40
_LONGEST_NAME = 64


def repaired(messages: Iterable[Message]) -> list[Message]:
    """Return the conversation in a form that every server accepts."""
    # Each answer with the messages until the next answer: its results, and messages of people, which are
    # sent after the results.
    rounds: list[tuple[AssistantMessage, list[Message]]] = [(AssistantMessage(), [])]
    for message in messages:
        if isinstance(message, AssistantMessage):
            rounds.append((message, []))
        else:
            rounds[-1][1].append(message)
    fixed: list[Message] = []
    used: set[str] = set()
    for answer, following in rounds:
        results = {message.call_id: message for message in following if isinstance(message, ToolResult)}
        _add_answer(fixed, answer, results, used)
        for message in following:
            if isinstance(message, UserMessage):
                _add_text_of_person(fixed, clean(message.text))
    if not fixed or not isinstance(fixed[0], UserMessage):
        fixed.insert(0, UserMessage(_EARLIER))
    if isinstance(fixed[-1], AssistantMessage):
        fixed.append(UserMessage(_GO_ON))
    return fixed


def clean(text: str) -> str:
    """Return the text with each lone surrogate replaced, so that it can be encoded."""
    return text.encode("utf-8", "replace").decode() if not text.isascii() else text


def plain_id(text: str, used: set[str]) -> str:
    """Return an id that every server accepts and that is not in `used`; add it there."""
    wanted = re.sub(r"[^A-Za-z0-9_-]", "_", text)[:_LONGEST_ID] or "call"
    made, number = wanted, len(used)
    while made in used:
        number += 1
        made = f"{wanted[: _LONGEST_ID - 8]}_{number}"
    used.add(made)
    return made


def _plain_name(name: str) -> str:
    """Return a name that every server accepts. A model may have called a tool of any name."""
    return re.sub(r"[^A-Za-z0-9_-]", "_", name)[:_LONGEST_NAME] or "unnamed"


def json_object(text: str) -> str | None:
    """Return `text` if it is exactly one JSON object, "{}" if it is empty or null, else None."""
    if not text.strip():
        return "{}"
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        try:  # common mistakes of models: line ends within strings, lone surrogates
            value = json.loads(text, strict=False, parse_constant=_not_json)
        except (ValueError, RecursionError):
            return None
        text = clean(json.dumps(value, ensure_ascii=False))
    if value is None:
        return "{}"
    return text if isinstance(value, dict) else None


def _not_json(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON")


def _add_text_of_person(fixed: list[Message], text: str) -> None:
    """Add text of a person; join it with the message of a person before it."""
    if not text.strip():
        return
    if fixed and isinstance(fixed[-1], UserMessage):
        fixed[-1] = UserMessage(f"{fixed[-1].text}\n\n{text}")
    else:
        fixed.append(UserMessage(text))


def _add_answer(
    fixed: list[Message], answer: AssistantMessage, results: Mapping[str, ToolResult], used: set[str]
) -> None:
    """Add an answer with the result of each call; join it with the answer before it."""
    text = clean(answer.text) if answer.text.strip() else ""
    if not text and not answer.calls:
        return
    last = fixed[-1] if fixed else None
    if isinstance(last, AssistantMessage):  # it has no calls: their results would come after it
        text = f"{last.text}\n\n{text}" if text else last.text
        fixed.pop()
    ids = [plain_id(call.id, used) for call in answer.calls]
    calls = tuple(
        ToolCall(new, _plain_name(call.name), json_object(call.arguments) or "{}")
        for new, call in zip(ids, answer.calls, strict=True)
    )
    fixed.append(AssistantMessage(text, calls, answer.opaque if _same_ids(answer.calls, calls) else None))
    for new, call in zip(ids, answer.calls, strict=True):
        result = results.get(call.id, ToolResult(call.id, NOT_SEEN, is_error=True))
        content = clean(result.content)
        fixed.append(ToolResult(new, content if content.strip() else _NOTHING, result.is_error))


def _same_ids(old: Sequence[ToolCall], new: Sequence[ToolCall]) -> bool:
    return [call.id for call in old] == [call.id for call in new]
