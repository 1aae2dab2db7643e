"""The messages of a conversation with a model, independent of the wire format."""

from __future__ import annotations

from dataclasses import dataclass

from ...state.tables.transcript import ToolCall
from .pictures import Picture


@dataclass(frozen=True, slots=True)
class UserMessage:
    """A message of a person."""

    text: str
    pictures: tuple[Picture, ...] = ()


@dataclass(frozen=True, slots=True)
class AssistantMessage:
    """An answer of a model."""

    text: str = ""
    calls: tuple[ToolCall, ...] = ()
    opaque: str | None = None
    """`Finished.opaque` of that answer. Some models refuse to continue without it. It is sent only to the
    model that wrote it."""


@dataclass(frozen=True, slots=True)
class ToolResult:
    """The result of a tool call."""

    call_id: str
    content: str
    is_error: bool = False


Message = UserMessage | AssistantMessage | ToolResult
