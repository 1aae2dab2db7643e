"""Answers in OpenAI's chat completions format, folded chunk by chunk into items.

Most servers use this format, each with deviations. The known deviations are handled here: ids, indexes and
finish reasons that are missing, empty or wrong; arguments as an object; errors in the middle of a stream;
usage in every chunk or in none.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field

import msgspec

from ....state.tables.session_entry import Usage
from ....state.tables.transcript import ToolCall
from .. import sse
from ..endpoint import Body, Endpoint
from ..error_mapping import stream_error
from ..model import Finished, Item, Reason, ReasoningDelta, ToolCallBroken, ToolCallReady, ToolCallStarted
from ..model_errors import ContentRefused, StreamCut, StreamMalformed
from ..repair import UsedIds, json_object
from .inline_reasoning import InlineReasoning

_LENGTH = ("length", "max_tokens", "model_length")
_REFUSED = ("content_filter", "safety", "refusal")
_REASONING = ("reasoning_content", "reasoning")


@dataclass(slots=True)
class _Call:
    """A call that is being written."""

    id: str
    given: str
    """The id from the server; empty if it sent none."""
    name: str = ""
    arguments: str = ""
    extra: Body = field(default_factory=dict)
    started: bool = False


class ChatFold:
    """The fold of one answer in OpenAI's chat completions format."""

    def __init__(self, endpoint: Endpoint, new_id: Callable[[], str]) -> None:
        self.done = False
        self.held = 0
        self._endpoint, self._new_id = endpoint, new_id
        self._calls: list[_Call] = []
        self._by_index: dict[int, _Call] = {}
        self._ids = UsedIds()
        self._said = False
        self._inline = InlineReasoning()
        self._reason = ""
        self._usage: Usage | None = None
        self._reasoning: dict[str, str] = {}
        self._details: list[Body] = []

    def feed(self, event: sse.ReceivedEvent) -> list[Item]:
        """Read one event; return the items that it completes."""
        if event.data.strip() == "[DONE]":
            self.done = True
            return []
        try:
            chunk = msgspec.json.decode(event.data)
        except (msgspec.DecodeError, RecursionError) as error:
            raise StreamMalformed(self._endpoint, said=event.data) from error
        if event.name == "error" and isinstance(chunk, dict) and "error" not in chunk:
            chunk = {"error": chunk}
        if failure := stream_error(self._endpoint, chunk):
            raise failure
        if not isinstance(chunk, dict):
            raise StreamMalformed(self._endpoint, said=event.data)
        if isinstance(usage := chunk.get("usage"), dict):
            self._usage = _usage(usage)
        choices = chunk.get("choices")
        choice = choices[0] if isinstance(choices, list) and choices else None
        if not isinstance(choice, dict):
            return []
        self._reason = str(choice.get("finish_reason") or self._reason).lower()
        delta = choice.get("delta") or choice.get("message")
        return self._delta(delta) if isinstance(delta, dict) else []

    def end(self) -> list[Item]:
        """End the stream; return the last items. Raise `StreamCut` if the answer is incomplete."""
        # A few servers never send a finish reason: then [DONE] after some text or a call is the end.
        if not self._reason and not (self.done and (self._said or self._calls)):
            raise StreamCut(self._endpoint)
        if self._reason == "error":
            raise StreamCut(self._endpoint, said="an error that the server does not name")
        if self._reason in _REFUSED:
            raise ContentRefused(self._endpoint)
        cut = self._reason in _LENGTH
        items: list[Item] = [*self._inline.end()]
        items += [item for call in self._calls for item in self._closed(call, cut=cut)]
        if self._usage:
            items.append(self._usage)
        reason: Reason = "length" if cut else "tool_calls" if self._calls else "stop"
        return [*items, Finished(reason, self._opaque())]

    def _delta(self, delta: Body) -> list[Item]:
        items: list[Item] = []
        for name in _REASONING:
            if isinstance(thought := delta.get(name), str) and thought:
                self._reasoning[name] = self._reasoning.get(name, "") + thought
                if name == next(iter(self._reasoning)):  # some servers send the same text under both names
                    items.append(ReasoningDelta(thought))
        details = delta.get("reasoning_details")
        for detail in details if isinstance(details, list) else []:
            _join(self._details, detail)
            self.held += len(str(detail))
        if text := _text(delta.get("content")) or _text(delta.get("refusal")):
            self._said = True
            items += self._inline.feed(text)
        calls = delta.get("tool_calls")
        for part in calls if isinstance(calls, list) else []:
            if isinstance(part, dict):
                items += self._part(part)
        return items

    def _part(self, part: Body) -> list[Item]:
        """Add a piece of a call: the first piece of a new call, or another piece of a begun one."""
        function = part.get("function")
        function = function if isinstance(function, dict) else {}
        name, arguments = str(function.get("name") or ""), function.get("arguments")
        if arguments is None:
            arguments = ""
        elif not isinstance(arguments, str):
            arguments = json.dumps(arguments, ensure_ascii=False)
        call = self._call_of(part, name, arguments)
        if name != call.name and not call.arguments:
            call.name += name
        if isinstance(part.get("extra_content"), dict):
            call.extra = {"extra_content": part["extra_content"]}
        call.arguments += arguments
        self.held += len(arguments) + len(str(part.get("extra_content") or ""))
        return self._started(call) if call.arguments else []

    def _call_of(self, part: Body, name: str, arguments: str) -> _Call:
        """Return the call that this piece belongs to, which may be a new one."""
        index, given = part.get("index"), str(part.get("id") or "")
        if isinstance(index, int):
            call = self._by_index.get(index)
        elif given:
            call = next((one for one in self._calls if one.given == given), None)
        else:
            call = self._calls[-1] if self._calls else None
        # Some servers number every call 0. Then a new call is recognised by another id or, without ids, by a
        # name and arguments that follow complete arguments.
        is_new = bool(call and given and call.given and given != call.given)
        if call and not given and name and arguments and call.arguments:
            is_new = json_object(call.arguments) is not None
        if call is None or is_new:
            call = _Call(self._ids.plain(given or f"call_{self._new_id()}"), given)
            self._calls.append(call)
            self.held += len(call.id) + len(given) + len(name)
        if isinstance(index, int):
            self._by_index[index] = call
        return call

    def _started(self, call: _Call) -> list[Item]:
        if call.started or not call.name:
            return []
        call.started = True
        return [ToolCallStarted(call.id, call.name)]

    def _closed(self, call: _Call, *, cut: bool) -> list[Item]:
        """Return a call as ready, or as broken with the reason."""
        arguments = None if cut and not call.arguments else json_object(call.arguments)
        if not call.name:
            broken = "It names no tool."
        elif arguments is None:
            broken = "Its arguments were cut." if cut else "Its arguments are no JSON object."
        else:
            return [*self._started(call), ToolCallReady(ToolCall(call.id, call.name, arguments))]
        return [*self._started(call), ToolCallBroken(call.id, call.name, call.arguments, broken)]

    def _opaque(self) -> str | None:
        """Return the data that the model needs back with this answer; None if there is none."""
        wanted: Body = {name: self._reasoning[name] for name in [*self._reasoning][:1]}
        if self._details:
            wanted["reasoning_details"] = self._details
        if extras := {call.id: call.extra for call in self._calls if call.extra}:
            wanted["calls"] = extras
        return msgspec.json.encode({"origin": self._endpoint.origin, **wanted}).decode() if wanted else None


def _join(details: list[Body], detail: object) -> None:
    """Add a piece of OpenRouter's reasoning to the blocks: a new block, or more text of the last one."""
    if not isinstance(detail, dict):
        return
    last = details[-1] if details else {}
    if not details or any(last.get(key) != detail.get(key) for key in ("type", "index")):
        details.append(dict(detail))
        return
    for key, value in detail.items():
        if key in ("text", "summary", "data") and isinstance(value, str):
            before = last.get(key)
            last[key] = before + value if isinstance(before, str) else value
        elif value is not None:
            last[key] = value


def _text(content: object) -> str:
    """Return the text of a content, which is a string or a list of parts."""
    if isinstance(content, list):
        return "".join(_text(part.get("text")) for part in content if isinstance(part, dict))
    return content if isinstance(content, str) else ""


def _usage(usage: Body) -> Usage:
    prompt, details = _count(usage, "prompt_tokens"), usage.get("prompt_tokens_details")
    details = details if isinstance(details, dict) else {}
    read = _count(details, "cached_tokens") or _count(usage, "prompt_cache_hit_tokens")
    written = _count(details, "cache_write_tokens")
    cost = usage.get("cost")
    return Usage(
        input_tokens=max(0, prompt - read - written),
        output_tokens=_count(usage, "completion_tokens"),
        cache_read_tokens=read,
        cache_write_tokens=written,
        last_prompt_tokens=prompt,
        cost_usd=float(cost) if isinstance(cost, int | float) and cost >= 0 else None,
    )


def _count(counts: Body, name: str) -> int:
    value = counts.get(name)
    return int(value) if isinstance(value, int | float) and 0 <= value < 1 << 53 else 0
