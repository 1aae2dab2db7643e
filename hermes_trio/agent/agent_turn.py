"""The turn as its agent uses it. The gateway's turn implements this protocol; tests implement it too."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from ..base.events import Event
from ..base.messages import MessageEvent
from ..platform.contract import Dialect
from ..state.tables.session_entry import SessionEntry, Usage
from ..state.tables.transcript import ToolCall, TranscriptRow
from ..tools.tool import Workplace


class AgentTurn(Workplace, Protocol):
    """A turn, as its agent uses it."""

    usage: Usage | None

    @property
    def turn_id(self) -> int:
        """Row id of the turn."""

    @property
    def entry(self) -> SessionEntry:
        """Session entry of the turn."""

    @property
    def prompt(self) -> str:
        """Text of the request that the turn answers, with the notes of the gateway."""

    @property
    def said(self) -> Sequence[MessageEvent]:
        """Messages that the turn answers."""

    @property
    def history(self) -> Sequence[TranscriptRow]:
        """Rows of the session before this turn."""

    @property
    def dialect(self) -> Dialect:
        """Markup that the platform renders."""

    async def requesting(self) -> None:
        """Record that a request is being sent to a model."""

    async def emit(self, event: Event) -> None:
        """Publish an event: first to the journal, then to the screen."""

    async def say(self, text: str) -> None:
        """Add a piece to the answer, and show it."""

    def mention(self, text: str) -> None:
        """Tell the person something that is not part of the answer."""

    def not_now(self, why: str) -> AbstractContextManager[None]:
        """Open a section that must not be cut; messages that arrive during it wait."""

    async def steered(self) -> list[str]:
        """Take the messages of people that are meant for this turn."""

    async def calls(self, text: str, *tool_calls: ToolCall, opaque: str | None = None) -> None:
        """Store the row with the model's text and tool calls."""

    async def result(self, call: ToolCall, content: str, status: str = "ok") -> None:
        """Store the row with the result of a tool call."""
