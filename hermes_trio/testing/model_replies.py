"""Replies of a model server for tests, as values, and their form on each of the two wires.

    Reply().thinks("Two files?").says("Let me see.").calls("terminal", {"command": "ls"}).uses(12, 7)

A reply is a list of steps; each of its methods returns a longer one. A reply that does not end with
`finishes`, `breaks`, `hangs` or `fails` gets a finish reason: `tool_calls` if it has calls, else `stop`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

Wire = Literal["openai", "anthropic"]


@dataclass(frozen=True, slots=True)
class TextStep:
    """A part of the answer's text."""

    text: str


@dataclass(frozen=True, slots=True)
class ThinkingStep:
    """A part of the model's reasoning."""

    text: str


@dataclass(frozen=True, slots=True)
class ToolCallStep:
    """A call of a tool."""

    tool: str
    arguments: str
    """JSON as it is sent; a test may pass invalid JSON."""
    id: str | None = None


@dataclass(frozen=True, slots=True)
class UsageStep:
    """Numbers of tokens that the request cost."""

    prompt: int
    answer: int


@dataclass(frozen=True, slots=True)
class PauseStep:
    """A pause of the stream; an infinite one never ends."""

    seconds: float


@dataclass(frozen=True, slots=True)
class ErrorStep:
    """An error in the middle of the stream."""

    kind: str
    message: str


@dataclass(frozen=True, slots=True)
class RawStep:
    """Bytes that are sent as they are."""

    data: bytes


@dataclass(frozen=True, slots=True)
class HangupStep:
    """The end of the connection."""


@dataclass(frozen=True, slots=True)
class FinishStep:
    """The end of the answer."""

    reason: str
    """Finish reason in OpenAI's terms; empty for an end without one."""
    done: bool = True
    """Send the regular end of the stream: [DONE] or `message_stop`."""


Step = (
    TextStep
    | ThinkingStep
    | ToolCallStep
    | UsageStep
    | PauseStep
    | ErrorStep
    | RawStep
    | HangupStep
    | FinishStep
)
Arguments = Mapping[str, object] | str


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer, and the way in which it is sent."""

    steps: tuple[Step, ...] = ()
    piece: int = 0
    """Most characters of text, reasoning or arguments in one event; 0 for no limit."""
    chunk: int = 0
    """Most bytes sent at a time; 0 for one event at a time."""
    line_end: str = "\n"
    comments: bool = False
    """A comment before each event, as proxies send to keep a connection alive."""
    content_type: str = "text/event-stream"
    seconds_per_event: float = 0.0
    head_after: float = 0.0
    """Seconds until the head of the response."""
    lingers: bool = False
    """Keep the response body open after the end of the answer."""

    def says(self, text: str) -> Reply:
        return self.then(TextStep(text))

    def thinks(self, text: str) -> Reply:
        return self.then(ThinkingStep(text))

    def calls(self, tool: str, arguments: Arguments = "{}", id: str | None = None) -> Reply:
        text = arguments if isinstance(arguments, str) else json.dumps(arguments)
        return self.then(ToolCallStep(tool, text, id))

    def uses(self, prompt: int, answer: int) -> Reply:
        return self.then(UsageStep(prompt, answer))

    def pauses(self, seconds: float) -> Reply:
        return self.then(PauseStep(seconds))

    def hangs(self) -> Reply:
        return self.then(PauseStep(float("inf")))

    def fails(self, kind: str = "server_error", message: str = "Something broke.") -> Reply:
        return self.then(ErrorStep(kind, message))

    def sends(self, data: bytes) -> Reply:
        return self.then(RawStep(data))

    def breaks(self) -> Reply:
        return self.then(HangupStep())

    def finishes(self, reason: str = "stop", *, done: bool = True) -> Reply:
        return self.then(FinishStep(reason, done))

    def then(self, step: Step) -> Reply:
        return replace(self, steps=(*self.steps, step))


@dataclass(frozen=True, slots=True)
class Plain:
    """A response that is no stream, mostly an error: its status and its body."""

    status: int
    body: Mapping[str, object] | str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    """Their names are in lower case."""


def refused(wire: Wire, status: int, kind: str, message: str, **headers: str) -> Plain:
    """Return an error response in the form of this wire's vendor; `retry_after="5"` sets Retry-After."""
    error: dict[str, object] = {"type": kind, "message": message}
    if wire == "openai":
        error |= {"code": kind, "param": None}
    body: dict[str, object] = {"type": "error", "error": error} if wire == "anthropic" else {"error": error}
    return Plain(status, body, {name.replace("_", "-"): value for name, value in headers.items()})


@dataclass(frozen=True, slots=True)
class WireEvent:
    """A server-sent event."""

    data: str
    name: str = ""


WireStep = WireEvent | PauseStep | RawStep | HangupStep


def events(reply: Reply, wire: Wire, number: int) -> Iterator[WireStep]:
    """Yield the steps of a reply in the form of this wire. `number` makes the ids in it unique."""
    steps = reply.steps
    if not steps or not isinstance(steps[-1], FinishStep | HangupStep | ErrorStep | RawStep | PauseStep):
        reason = "tool_calls" if any(isinstance(step, ToolCallStep) for step in steps) else "stop"
        steps = (*steps, FinishStep(reason))
    return _openai(steps, reply.piece, number) if wire == "openai" else _anthropic(steps, reply.piece, number)


def _openai(steps: tuple[Step, ...], piece: int, number: int) -> Iterator[WireStep]:
    def chunk(delta: Mapping[str, Any], finish: str | None = None) -> WireEvent:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        return WireEvent(json.dumps({"id": f"chatcmpl-{number}", "object": _CHUNK, "choices": [choice]}))

    index = 0
    used: WireEvent | None = None
    yield chunk({"role": "assistant", "content": ""})
    for step in steps:
        match step:
            case TextStep():
                yield from (chunk({"content": part}) for part in _pieces(step.text, piece))
            case ThinkingStep():
                yield from (chunk({"reasoning_content": part}) for part in _pieces(step.text, piece))
            case ToolCallStep():
                call = {"index": index, "id": step.id or f"call_{number}_{index}", "type": "function"}
                function: dict[str, str] = {"name": step.tool, "arguments": ""}
                yield chunk({"tool_calls": [{**call, "function": function}]})
                for part in _pieces(step.arguments, piece):
                    yield chunk({"tool_calls": [{"index": index, "function": {"arguments": part}}]})
                index += 1
            case UsageStep():
                usage = {"prompt_tokens": step.prompt, "completion_tokens": step.answer}
                used = WireEvent(json.dumps({"object": _CHUNK, "choices": [], "usage": usage}))
            case ErrorStep():
                error = {"type": step.kind, "message": step.message}
                yield WireEvent(json.dumps({"error": error}))
            case FinishStep():
                if step.reason:
                    yield chunk({}, step.reason)
                if used:
                    yield used
                if step.done:
                    yield WireEvent("[DONE]")
            case _:
                yield step


_CHUNK = "chat.completion.chunk"
_STOP_REASONS = {
    "stop": "end_turn",
    "tool_calls": "tool_use",
    "length": "max_tokens",
    "content_filter": "refusal",
}


def _anthropic(steps: tuple[Step, ...], piece: int, number: int) -> Iterator[WireStep]:
    def event(kind: str, **more: Any) -> WireEvent:
        return WireEvent(json.dumps({"type": kind, **more}), kind)

    def block(
        index: int, start: Mapping[str, Any], deltas: Iterator[Mapping[str, Any]]
    ) -> Iterator[WireEvent]:
        yield event("content_block_start", index=index, content_block=start)
        yield from (event("content_block_delta", index=index, delta=delta) for delta in deltas)
        yield event("content_block_stop", index=index)

    used = next((step for step in steps if isinstance(step, UsageStep)), UsageStep(0, 0))
    usage = {"input_tokens": used.prompt, "output_tokens": 1}
    message = {"id": f"msg_{number}", "type": "message", "role": "assistant", "content": [], "usage": usage}
    yield event("message_start", message=message)
    yield event("ping")
    index = 0
    for step in steps:
        match step:
            case TextStep():
                texts = ({"type": "text_delta", "text": part} for part in _pieces(step.text, piece))
                yield from block(index, {"type": "text", "text": ""}, texts)
            case ThinkingStep():
                start = {"type": "thinking", "thinking": "", "signature": ""}
                yield from block(index, start, _thoughts(step, piece, number))
            case ToolCallStep():
                id_ = step.id or f"toolu_{number}_{index}"
                begun = {"type": "tool_use", "id": id_, "name": step.tool, "input": {}}
                parts = (
                    {"type": "input_json_delta", "partial_json": part}
                    for part in _pieces(step.arguments, piece)
                )
                yield from block(index, begun, parts)
            case ErrorStep():
                yield event("error", error={"type": step.kind, "message": step.message})
            case FinishStep():
                if step.reason:
                    delta = {"stop_reason": _STOP_REASONS.get(step.reason, step.reason)}
                    yield event("message_delta", delta=delta, usage={"output_tokens": used.answer})
                if step.done:
                    yield event("message_stop")
            case PauseStep() | RawStep() | HangupStep():
                yield step
        index += isinstance(step, TextStep | ThinkingStep | ToolCallStep)


def _thoughts(step: ThinkingStep, piece: int, number: int) -> Iterator[Mapping[str, Any]]:
    yield from ({"type": "thinking_delta", "thinking": part} for part in _pieces(step.text, piece))
    yield {"type": "signature_delta", "signature": f"signed-{number}"}


def _pieces(text: str, size: int) -> Iterator[str]:
    size = size or max(1, len(text))
    return (text[start : start + size] for start in range(0, len(text), size))
