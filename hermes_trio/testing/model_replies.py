"""What a model for tests answers, as values, and how that looks on either wire.

    Reply().thinks("Two files?").says("Let me see.").calls("terminal", {"command": "ls"}).uses(12, 7)

A reply is a list of steps; each of its methods returns a longer one. One that ends in no `finishes`,
`breaks`, `hangs` or `fails` is finished as its steps say: for calls if there were any.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

Wire = Literal["openai", "anthropic"]


@dataclass(frozen=True, slots=True)
class Says:
    text: str


@dataclass(frozen=True, slots=True)
class Thinks:
    text: str


@dataclass(frozen=True, slots=True)
class Calls:
    tool: str
    arguments: str
    """As written, which may be no JSON."""
    id: str | None = None


@dataclass(frozen=True, slots=True)
class Uses:
    prompt: int
    answer: int


@dataclass(frozen=True, slots=True)
class Pauses:
    """Sends nothing for so long; for ever if that is infinite."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Fails:
    """An error in the middle of the stream."""

    kind: str
    message: str


@dataclass(frozen=True, slots=True)
class Sends:
    """These bytes, whatever they are."""

    data: bytes


@dataclass(frozen=True, slots=True)
class Breaks:
    """The connection ends."""


@dataclass(frozen=True, slots=True)
class Finishes:
    reason: str
    """In OpenAI's words; empty for an end without one."""
    done: bool = True
    """Whether the stream ends as it should, with [DONE] or `message_stop`."""


Step = Says | Thinks | Calls | Uses | Pauses | Fails | Sends | Breaks | Finishes
Arguments = Mapping[str, object] | str


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer, and how it is put on the wire."""

    steps: tuple[Step, ...] = ()
    piece: int = 0
    """Characters of text, thought or arguments in one event; 0 is all of it."""
    chunk: int = 0
    """Bytes sent at a time; 0 is an event at a time."""
    line_end: str = "\n"
    comments: bool = False
    """A comment before each event, as proxies send to keep a connection alive."""
    content_type: str = "text/event-stream"
    seconds_per_event: float = 0.0
    head_after: float = 0.0
    """Seconds until the head of the answer."""
    lingers: bool = False
    """After the end of the answer its body does not end."""

    def says(self, text: str) -> Reply:
        return self.then(Says(text))

    def thinks(self, text: str) -> Reply:
        return self.then(Thinks(text))

    def calls(self, tool: str, arguments: Arguments = "{}", id: str | None = None) -> Reply:
        return self.then(Calls(tool, arguments if isinstance(arguments, str) else json.dumps(arguments), id))

    def uses(self, prompt: int, answer: int) -> Reply:
        return self.then(Uses(prompt, answer))

    def pauses(self, seconds: float) -> Reply:
        return self.then(Pauses(seconds))

    def hangs(self) -> Reply:
        return self.then(Pauses(float("inf")))

    def fails(self, kind: str = "server_error", message: str = "Something broke.") -> Reply:
        return self.then(Fails(kind, message))

    def sends(self, data: bytes) -> Reply:
        return self.then(Sends(data))

    def breaks(self) -> Reply:
        return self.then(Breaks())

    def finishes(self, reason: str = "stop", *, done: bool = True) -> Reply:
        return self.then(Finishes(reason, done))

    def then(self, step: Step) -> Reply:
        return replace(self, steps=(*self.steps, step))


@dataclass(frozen=True, slots=True)
class Plain:
    """An answer in one piece, a refusal mostly: its status and its body."""

    status: int
    body: Mapping[str, object] | str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    """Their names in small letters."""


def refused(wire: Wire, status: int, kind: str, message: str, **headers: str) -> Plain:
    """A refusal as this wire's vendor writes one; `retry_after="5"` is the header Retry-After."""
    error: dict[str, object] = {"type": kind, "message": message}
    if wire == "openai":
        error |= {"code": kind, "param": None}
    body: dict[str, object] = {"type": "error", "error": error} if wire == "anthropic" else {"error": error}
    return Plain(status, body, {name.replace("_", "-"): value for name, value in headers.items()})


@dataclass(frozen=True, slots=True)
class Put:
    """An event on the wire."""

    data: str
    name: str = ""


def events(reply: Reply, wire: Wire, number: int) -> Iterator[Put | Pauses | Sends | Breaks]:
    """What the steps of a reply look like on this wire; `number` makes its ids its own."""
    steps = reply.steps
    if not steps or not isinstance(steps[-1], Finishes | Breaks | Fails | Sends | Pauses):
        reason = "tool_calls" if any(isinstance(step, Calls) for step in steps) else "stop"
        steps = (*steps, Finishes(reason))
    return _openai(steps, reply.piece, number) if wire == "openai" else _anthropic(steps, reply.piece, number)


def _openai(steps: tuple[Step, ...], piece: int, number: int) -> Iterator[Put | Pauses | Sends | Breaks]:
    def chunk(delta: Mapping[str, Any], finish: str | None = None) -> Put:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        return Put(json.dumps({"id": f"chatcmpl-{number}", "object": _CHUNK, "choices": [choice]}))

    index = 0
    used: Put | None = None
    yield chunk({"role": "assistant", "content": ""})
    for step in steps:
        match step:
            case Says():
                yield from (chunk({"content": part}) for part in _pieces(step.text, piece))
            case Thinks():
                yield from (chunk({"reasoning_content": part}) for part in _pieces(step.text, piece))
            case Calls():
                call = {"index": index, "id": step.id or f"call_{number}_{index}", "type": "function"}
                function: dict[str, str] = {"name": step.tool, "arguments": ""}
                yield chunk({"tool_calls": [{**call, "function": function}]})
                for part in _pieces(step.arguments, piece):
                    yield chunk({"tool_calls": [{"index": index, "function": {"arguments": part}}]})
                index += 1
            case Uses():
                usage = {"prompt_tokens": step.prompt, "completion_tokens": step.answer}
                used = Put(json.dumps({"object": _CHUNK, "choices": [], "usage": usage}))
            case Fails():
                error = {"type": step.kind, "message": step.message}
                yield Put(json.dumps({"error": error}))
            case Finishes():
                if step.reason:
                    yield chunk({}, step.reason)
                if used:
                    yield used
                if step.done:
                    yield Put("[DONE]")
            case _:
                yield step


_CHUNK = "chat.completion.chunk"
_STOP_REASONS = {
    "stop": "end_turn",
    "tool_calls": "tool_use",
    "length": "max_tokens",
    "content_filter": "refusal",
}


def _anthropic(steps: tuple[Step, ...], piece: int, number: int) -> Iterator[Put | Pauses | Sends | Breaks]:
    def event(kind: str, **more: Any) -> Put:
        return Put(json.dumps({"type": kind, **more}), kind)

    def block(index: int, start: Mapping[str, Any], deltas: Iterator[Mapping[str, Any]]) -> Iterator[Put]:
        yield event("content_block_start", index=index, content_block=start)
        yield from (event("content_block_delta", index=index, delta=delta) for delta in deltas)
        yield event("content_block_stop", index=index)

    used = next((step for step in steps if isinstance(step, Uses)), Uses(0, 0))
    usage = {"input_tokens": used.prompt, "output_tokens": 1}
    message = {"id": f"msg_{number}", "type": "message", "role": "assistant", "content": [], "usage": usage}
    yield event("message_start", message=message)
    yield event("ping")
    index = 0
    for step in steps:
        match step:
            case Says():
                texts = ({"type": "text_delta", "text": part} for part in _pieces(step.text, piece))
                yield from block(index, {"type": "text", "text": ""}, texts)
            case Thinks():
                start = {"type": "thinking", "thinking": "", "signature": ""}
                yield from block(index, start, _thoughts(step, piece, number))
            case Calls():
                id_ = step.id or f"toolu_{number}_{index}"
                begun = {"type": "tool_use", "id": id_, "name": step.tool, "input": {}}
                parts = (
                    {"type": "input_json_delta", "partial_json": part}
                    for part in _pieces(step.arguments, piece)
                )
                yield from block(index, begun, parts)
            case Fails():
                yield event("error", error={"type": step.kind, "message": step.message})
            case Finishes():
                if step.reason:
                    delta = {"stop_reason": _STOP_REASONS.get(step.reason, step.reason)}
                    yield event("message_delta", delta=delta, usage={"output_tokens": used.answer})
                if step.done:
                    yield event("message_stop")
            case Pauses() | Sends() | Breaks():
                yield step
        index += isinstance(step, Says | Thinks | Calls)


def _thoughts(step: Thinks, piece: int, number: int) -> Iterator[Mapping[str, Any]]:
    yield from ({"type": "thinking_delta", "thinking": part} for part in _pieces(step.text, piece))
    yield {"type": "signature_delta", "signature": f"signed-{number}"}


def _pieces(text: str, size: int) -> Iterator[str]:
    size = size or max(1, len(text))
    return (text[start : start + size] for start in range(0, len(text), size))
