"""The interface between the agent's loop and a model.

A request is sent as a whole; an answer comes back as items, in this order:

    RetryScheduled,             only before the answer: an attempt failed, and another one follows; reasoning
    ModelReplaced               and begun calls of the failed attempt are void
    PicturesRefused             only before the answer: the model cannot see
    ReasoningDelta, TextDelta   while they are written
    ToolCallStarted             the model begins to write a call; its arguments are not known yet
    ToolCallReady               a complete call, its arguments a JSON object: only now may it run
    ToolCallBroken              a call that was cut, or whose arguments are no JSON object: it never runs
    Usage                       once, if the server counts
    Finished                    last. An answer without it is incomplete, and ends in a `ModelError`

Calls are ready when the answer is complete, never earlier: an answer that fails in the middle runs nothing.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, Protocol

import msgspec

from ...state.tables.session_entry import Usage
from ...state.tables.transcript import ToolCall
from .earlier_messages import EarlierMessages
from .model_errors import ModelError
from .model_messages import Message

Effort = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]
Reason = Literal["stop", "tool_calls", "length"]


@dataclass(frozen=True)
class ToolSpec:
    """The description of a tool for a model."""

    name: str
    description: str
    parameters: Mapping[str, Any]
    """A JSON schema, of type object."""

    @cached_property
    def schema(self) -> msgspec.Raw:
        """The parameters as JSON. Every request has them, so they are encoded once."""
        return msgspec.Raw(msgspec.json.encode(self.parameters))


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRequest:
    """One request to a model."""

    messages: tuple[Message, ...]
    earlier: EarlierMessages | None = None
    """The first of these messages, in a form that remembers what was made of them for former requests."""
    files: Path | None = None
    """The directory with the pictures of these messages."""
    system: str = ""
    tools: tuple[ToolSpec, ...] = ()
    may_call: bool = True
    """False forbids calls. The tools are described even then: earlier calls need their description, and the
    provider's cache begins with it."""
    max_tokens: int | None = None
    """Maximum length of the answer; None for the server's default."""
    temperature: float | None = None
    """Sampling temperature; left out for models that accept none."""
    effort: Effort | None = None
    """Reasoning effort; None for the model's default."""


@dataclass(frozen=True, slots=True)
class RetryScheduled:
    """An attempt failed; the next one follows after `seconds`."""

    seconds: float
    because: ModelError


@dataclass(frozen=True, slots=True)
class ModelReplaced:
    """The model cannot answer; `model` replaces it for the rest of the turn."""

    model: str
    because: ModelError


@dataclass(frozen=True, slots=True)
class PicturesRefused:
    """The server refused the pictures. The model answers without them, and was told so."""

    model: str
    said: str
    """The reason of the server."""


@dataclass(frozen=True, slots=True)
class TextDelta:
    """A piece of the answer's text."""

    text: str


@dataclass(frozen=True, slots=True)
class ReasoningDelta:
    """A piece of the model's reasoning."""

    text: str


@dataclass(frozen=True, slots=True)
class ToolCallStarted:
    """The beginning of a tool call."""

    id: str
    name: str


@dataclass(frozen=True, slots=True)
class ToolCallReady:
    """A complete tool call, which may run."""

    call: ToolCall


@dataclass(frozen=True, slots=True)
class ToolCallBroken:
    """A tool call that cannot run, and the reason."""

    id: str
    name: str
    arguments: str
    """The arguments as far as they arrived."""
    problem: str


@dataclass(frozen=True, slots=True)
class Finished:
    """The end of a complete answer."""

    reason: Reason
    opaque: str | None = None
    """Data of the model that it needs back with this answer, for `AssistantMessage.opaque`. Only its wire
    format reads it."""


Item = (
    RetryScheduled
    | ModelReplaced
    | PicturesRefused
    | TextDelta
    | ReasoningDelta
    | ToolCallStarted
    | ToolCallReady
    | ToolCallBroken
    | Usage
    | Finished
)


class Model(Protocol):
    """A model that answers requests."""

    @property
    def name(self) -> str:
        """Name of the model."""

    def stream(self, request: ModelRequest) -> AbstractAsyncContextManager[AsyncIterator[Item]]:
        """Send the request and yield the answer while it is written. Entering the block and each item may
        raise a `ModelError`. The block may be left or cancelled at any point; that closes its connection."""
