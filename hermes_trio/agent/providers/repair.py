"""A conversation as every server takes it. A pure function: what a cut, an import or a change of model has
left behind is made whole, and what was whole stays as it is.

The rules are the strictest of all servers' together: a person begins and speaks last; people and model
take turns; nothing is empty; each call has one result, right behind it, and no result is without its call;
ids are their own, and they and names are short and plain.
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
    """The same conversation, such that it can be sent."""
    # What follows an answer until the next one: results, and what people said meanwhile, which comes
    # behind the results.
    rounds: list[tuple[AssistantMessage, list[Message]]] = [(AssistantMessage(), [])]
    for message in messages:
        if isinstance(message, AssistantMessage):
            rounds.append((message, []))
        else:
            rounds[-1][1].append(message)
    made: list[Message] = []
    used: set[str] = set()
    for answer, following in rounds:
        results = {message.call_id: message for message in following if isinstance(message, ToolResult)}
        _answer(made, answer, results, used)
        for message in following:
            if isinstance(message, UserMessage):
                _say(made, clean(message.text))
    if not made or not isinstance(made[0], UserMessage):
        made.insert(0, UserMessage(_EARLIER))
    if isinstance(made[-1], AssistantMessage):
        made.append(UserMessage(_GO_ON))
    return made


def clean(text: str) -> str:
    """Text that can be sent: without halves of characters."""
    return text.encode("utf-8", "replace").decode() if not text.isascii() else text


def plain_id(text: str, used: set[str]) -> str:
    """An id that every server takes and that is not used yet; from here on it is."""
    wanted = re.sub(r"[^A-Za-z0-9_-]", "_", text)[:_LONGEST_ID] or "call"
    made, number = wanted, len(used)
    while made in used:
        number += 1
        made = f"{wanted[: _LONGEST_ID - 8]}_{number}"
    used.add(made)
    return made


def _plain_name(name: str) -> str:
    """A name that every server takes, for what a model called and may not exist."""
    return re.sub(r"[^A-Za-z0-9_-]", "_", name)[:_LONGEST_NAME] or "unnamed"


def json_object(text: str) -> str | None:
    """`text` if it is a JSON object, and nothing but one; no text at all is the empty one."""
    if not text.strip():
        return "{}"
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        try:  # with what models get wrong: line ends within strings, halves of characters
            value = json.loads(text, strict=False, parse_constant=_not_json)
        except (ValueError, RecursionError):
            return None
        text = clean(json.dumps(value, ensure_ascii=False))
    if value is None:
        return "{}"
    return text if isinstance(value, dict) else None


def _not_json(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON")


def _say(made: list[Message], text: str) -> None:
    if not text.strip():
        return
    if made and isinstance(made[-1], UserMessage):
        made[-1] = UserMessage(f"{made[-1].text}\n\n{text}")
    else:
        made.append(UserMessage(text))


def _answer(
    made: list[Message], said: AssistantMessage, results: Mapping[str, ToolResult], used: set[str]
) -> None:
    text = clean(said.text) if said.text.strip() else ""
    if not text and not said.calls:
        return
    last = made[-1] if made else None
    if isinstance(last, AssistantMessage):  # and it has no calls, or their results would stand here
        text = f"{last.text}\n\n{text}" if text else last.text
        made.pop()
    ids = [plain_id(call.id, used) for call in said.calls]
    calls = tuple(
        ToolCall(new, _plain_name(call.name), json_object(call.arguments) or "{}")
        for new, call in zip(ids, said.calls, strict=True)
    )
    made.append(AssistantMessage(text, calls, said.opaque if _same(said.calls, calls) else None))
    for new, call in zip(ids, said.calls, strict=True):
        result = results.get(call.id, ToolResult(call.id, NOT_SEEN, is_error=True))
        content = clean(result.content)
        made.append(ToolResult(new, content if content.strip() else _NOTHING, result.is_error))


def _same(old: Sequence[ToolCall], new: Sequence[ToolCall]) -> bool:
    return [call.id for call in old] == [call.id for call in new]
