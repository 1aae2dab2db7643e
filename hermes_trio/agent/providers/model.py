"""What the agent's loop and a model say to each other, whoever runs the model.

A request goes out whole; an answer comes back in items, in the order in which they become true:

    Waits, FallsBack            only before the answer itself: an attempt failed, and what is done about it;
                                what it has thought, and the calls it has begun, are void
    ReasoningDelta, TextDelta   as they are written
    ToolCallStarted             the model begins to write a call; nobody knows yet what it asks for
    ToolCallReady               a whole call, its arguments a JSON object: only now may anything run
    ToolCallBroken              a call that was cut, or is no JSON object: it can only be told to the model
    Usage                       once, if the server counts
    Finished                    last. An answer without it was not finished, and ends in a `ModelError`

Calls are ready when the answer is whole, never earlier: what failed in the middle has called nothing.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from ...state.tables.session_entry import Usage
from ...state.tables.transcript import ToolCall
from .model_errors import ModelError

Effort = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]
Reason = Literal["stop", "tool_calls", "length"]


@dataclass(frozen=True, slots=True)
class UserMessage:
    """What a person said."""

    text: str


@dataclass(frozen=True, slots=True)
class AssistantMessage:
    """What a model answered."""

    text: str = ""
    calls: tuple[ToolCall, ...] = ()
    opaque: str | None = None
    """`Finished.opaque` of that answer. Some models refuse to go on when they do not get it back; one that
    did not write it never sees it."""


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What came of a call."""

    call_id: str
    content: str
    is_error: bool = False


Message = UserMessage | AssistantMessage | ToolResult


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """A tool as a model sees it."""

    name: str
    description: str
    parameters: Mapping[str, Any]
    """A JSON schema, of type object."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRequest:
    """One question to a model."""

    messages: tuple[Message, ...]
    system: str = ""
    tools: tuple[ToolSpec, ...] = ()
    may_call: bool = True
    """Whether the tools may be used. They are told all the same: what has been called before has to be known,
    and what is cached begins with them."""
    max_tokens: int | None = None
    """How long the answer may be; None is what the server thinks right."""
    temperature: float | None = None
    """Left out where a model takes none."""
    effort: Effort | None = None
    """How hard the model should think; None is its own way."""


@dataclass(frozen=True, slots=True)
class RetryScheduled:
    """An attempt failed, and the next one is made in so many seconds."""

    seconds: float
    because: ModelError


@dataclass(frozen=True, slots=True)
class ModelReplaced:
    """A model cannot answer: from here on, and for the rest of the turn, another one does."""

    model: str
    because: ModelError


@dataclass(frozen=True, slots=True)
class TextDelta:
    text: str


@dataclass(frozen=True, slots=True)
class ReasoningDelta:
    text: str


@dataclass(frozen=True, slots=True)
class ToolCallStarted:
    id: str
    name: str


@dataclass(frozen=True, slots=True)
class ToolCallReady:
    call: ToolCall


@dataclass(frozen=True, slots=True)
class ToolCallBroken:
    id: str
    name: str
    arguments: str
    """As far as it came."""
    problem: str


@dataclass(frozen=True, slots=True)
class Finished:
    reason: Reason
    opaque: str | None = None
    """What the model wants back with this answer, for `AssistantMessage.opaque`; nobody else reads it."""


Item = (
    RetryScheduled
    | ModelReplaced
    | TextDelta
    | ReasoningDelta
    | ToolCallStarted
    | ToolCallReady
    | ToolCallBroken
    | Usage
    | Finished
)


class Model(Protocol):
    """Whoever answers requests."""

    @property
    def name(self) -> str: ...

    def stream(self, request: ModelRequest) -> AbstractAsyncContextManager[AsyncIterator[Item]]:
        """Ask, and hand out the answer while it is written. Entering may raise a `ModelError`, and so may
        each item. The block may be left, or cancelled, at any point: its connection goes with it."""
