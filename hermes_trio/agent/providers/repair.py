"""Repair of a conversation, so that every server accepts it. It completes what a cut, an import or a change
of the model left incomplete, and changes nothing in a complete conversation.

The rules are the strictest ones of all servers together: a person has the first and the last message; people
and model take turns; nothing is empty; each call has one result, directly after it, and no result is without
its call; ids are unique; ids and names are short and plain.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import msgspec

from ...state.tables.transcript import ToolCall
from .model_messages import AssistantMessage, Message, ToolResult, UserMessage

NOT_SEEN = "No result: whether this ran, and what came of it, is not known."
_EARLIER = "(The conversation began earlier.)"
_GO_ON = "Go on."
_NOTHING = "(no output)"
_LONGEST_ID = 40
_LONGEST_NAME = 64


class UsedIds:
    """The ids of calls in a conversation, each used once."""

    def __init__(self, before: UsedIds | None = None) -> None:
        """`before` has the ids of the part of the conversation before this one."""
        self._before, self._own = before, set[str]()

    def __contains__(self, text: str) -> bool:
        return text in self._own or (self._before is not None and text in self._before)

    def __len__(self) -> int:
        return len(self._own) + (len(self._before) if self._before is not None else 0)

    def plain(self, text: str) -> str:
        """Return a new id that every server accepts, like `text` if possible."""
        wanted = re.sub(r"[^A-Za-z0-9_-]", "_", text)[:_LONGEST_ID] or "call"
        made, number = wanted, len(self)
        while made in self:
            number += 1
            made = f"{wanted[: _LONGEST_ID - 8]}_{number}"
        self._own.add(made)
        return made


class Repair:
    """A conversation in a form that every server accepts, made round by round. A round is an answer with the
    messages until the next answer: its results, and messages of people, which are sent after the results."""

    def __init__(self, before: Repair | None = None) -> None:
        """Go on after `before`, which stays as it is. Only the messages after its settled part are in this
        one."""
        self._fixed: list[Message] = before._fixed[before.settled :] if before else []
        self._used: UsedIds = UsedIds(before._used if before else None)
        self._answer: AssistantMessage = before._answer if before else AssistantMessage()
        self._following: list[Message] = before._following[:] if before else []
        self.settled: int = 0
        """The number of messages at the beginning that no further message changes: those before the last
        answer."""

    def add(self, messages: Iterable[Message]) -> None:
        """Add messages to the end of the conversation."""
        for message in messages:
            if isinstance(message, AssistantMessage):
                self._end_round()
                self._answer = message
            else:
                self._following.append(message)

    def settled_from(self, start: int, most: int) -> list[Message]:
        """Return settled messages from this one on, up to an answer: about `most`, or all if they are
        fewer."""
        end = min(start + most, self.settled)
        while end < self.settled and not isinstance(self._fixed[end], AssistantMessage):
            end += 1
        return self._fixed[start:end]

    def whole(self) -> list[Message]:
        """Return the conversation. Nothing can be added after that."""
        self._end_round()
        if not self._fixed:
            self._fixed.append(UserMessage(_EARLIER))
        if isinstance(self._fixed[-1], AssistantMessage):
            self._fixed.append(UserMessage(_GO_ON))
        return self._fixed

    def _end_round(self) -> None:
        results = {message.call_id: message for message in self._following if isinstance(message, ToolResult)}
        self._add_answer(self._answer, results)
        for message in self._following:
            if isinstance(message, UserMessage):
                _add_words_of_person(self._fixed, replace(message, text=clean(message.text)))
        self._answer, self._following = AssistantMessage(), []

    def _add_answer(self, answer: AssistantMessage, results: Mapping[str, ToolResult]) -> None:
        """Add an answer with the result of each call; join it with the answer before it."""
        text = clean(answer.text) if answer.text.strip() else ""
        if not text and not answer.calls:
            return
        fixed = self._fixed
        if not fixed:
            fixed.append(UserMessage(_EARLIER))
        last = fixed[-1]
        if isinstance(last, AssistantMessage):  # it has no calls: their results would come after it
            text = f"{last.text}\n\n{text}" if text else last.text
            fixed.pop()
        ids = [self._used.plain(call.id) for call in answer.calls]
        calls = tuple(
            ToolCall(new, _plain_name(call.name), json_object(call.arguments) or "{}")
            for new, call in zip(ids, answer.calls, strict=True)
        )
        self.settled = len(fixed)
        fixed.append(AssistantMessage(text, calls, answer.opaque if _same_ids(answer.calls, calls) else None))
        for new, call in zip(ids, answer.calls, strict=True):
            result = results.get(call.id, ToolResult(call.id, NOT_SEEN, is_error=True))
            content = clean(result.content)
            fixed.append(ToolResult(new, content if content.strip() else _NOTHING, result.is_error))


def repaired(messages: Iterable[Message]) -> list[Message]:
    """Return the conversation in a form that every server accepts."""
    repair = Repair()
    repair.add(messages)
    return repair.whole()


def clean(text: str) -> str:
    """Return the text with each lone surrogate replaced, so that it can be encoded."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace").decode()
    return text


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


def _add_words_of_person(fixed: list[Message], message: UserMessage) -> None:
    """Add a message of a person; join it with the message of a person before it."""
    if not message.text.strip():
        return
    last = fixed[-1] if fixed else None
    if isinstance(last, UserMessage):
        fixed[-1] = UserMessage(f"{last.text}\n\n{message.text}", last.pictures + message.pictures)
    else:
        fixed.append(message)


def _same_ids(old: Sequence[ToolCall], new: Sequence[ToolCall]) -> bool:
    return [call.id for call in old] == [call.id for call in new]
