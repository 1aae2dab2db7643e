"""What the agent needs of the turn it runs in. The gateway's turn is one; so is whatever a test makes."""

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
    """A turn, as its agent sees it."""

    usage: Usage | None

    @property
    def turn_id(self) -> int: ...
    @property
    def entry(self) -> SessionEntry: ...
    @property
    def prompt(self) -> str: ...
    @property
    def said(self) -> Sequence[MessageEvent]: ...
    @property
    def history(self) -> Sequence[TranscriptRow]: ...
    @property
    def dialect(self) -> Dialect: ...

    async def requesting(self) -> None:
        """A request goes to a model now."""

    async def emit(self, event: Event) -> None:
        """Something happens now: journal first, then the screen."""

    async def say(self, text: str) -> None:
        """The next piece of the answer."""

    def mention(self, text: str) -> None:
        """Tell the person something that is no part of the answer."""

    def not_now(self, why: str) -> AbstractContextManager[None]:
        """A part that must not be cut: what is said meanwhile waits."""

    async def steered(self) -> list[str]:
        """What people have said that is to go into this turn."""

    async def calls(self, text: str, *tool_calls: ToolCall, opaque: str | None = None) -> None:
        """The model asked for tools: the row that says so."""

    async def result(self, call: ToolCall, content: str, status: str = "ok") -> None:
        """A tool's result: its row."""
