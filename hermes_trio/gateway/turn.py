"""What an agent sees of the turn it runs in: what was said, what has been said before, and the ways to
say, to call tools and to run commands. Whatever happens is in the run journal first, and shown then."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TYPE_CHECKING

import trio

from ..events import (
    Event,
    MessageDelta,
)
from ..host.groups import Process
from ..journal.writer import RunWriter
from ..messages import MessageEvent
from ..state import transcript, turns
from ..state.entry import SessionEntry, Usage
from ..state.transcript import Message, ToolCall
from .processes import Command, process_of

if TYPE_CHECKING:
    from .gateway import Gateway

Agent = Callable[["Turn"], Awaitable[str | None]]
"""Whoever answers: any async function of a turn. What it returns is the answer; None means that what it
has said is the answer."""


class Turn:
    """What an agent sees of the turn it runs in."""

    def __init__(
        self,
        gateway: Gateway,
        entry: SessionEntry,
        turn_id: int,
        run_id: str,
        journal: RunWriter,
        *,
        prompt: str,
        said: Sequence[MessageEvent],
        history: Sequence[Message],
        show: Callable[[str], None],
    ) -> None:
        self.entry, self.turn_id, self.run_id = entry, turn_id, run_id
        self.prompt = prompt
        """What the agent is asked, with the gateway's note in front where one is due."""
        self.said = tuple(said)
        """The messages this turn answers; none where a cut turn is resumed."""
        self.history = tuple(history)
        """The transcript before this turn."""
        self.usage: Usage | None = None
        """What the model has used; the agent sets it."""
        self.text = ""
        """What has been said so far."""
        self._gateway, self._journal, self._show = gateway, journal, show
        self.has_asked = False
        """Whether a request went to a model: before that a cut interrupts nothing."""
        self.active_at = trio.current_time()
        self.patience = trio.CancelScope()
        """Cancelled when nothing has happened for `agent.gateway_timeout` seconds."""
        self.active()

    def active(self) -> None:
        """Something happened: the clock of inactivity begins anew."""
        self.active_at = trio.current_time()
        limit = self._gateway.config.agent.gateway_timeout
        if limit:
            self.patience.deadline = self.active_at + limit

    async def requesting(self) -> None:
        """A request goes to a model now. From here on a cut has interrupted something."""
        self.active()
        if not self.has_asked:
            self.has_asked = True
            await self._gateway.database.write(turns.note_request, self.turn_id, self._gateway.world.time())

    async def emit(self, event: Event) -> None:
        """Something happens: it is in the journal first, and on the screen then."""
        await self.requesting()
        await self._journal.append(event)
        if isinstance(event, MessageDelta):
            self.text += event.delta
            self._show(self.text)

    async def say(self, text: str) -> None:
        """The next piece of the answer."""
        await self.emit(MessageDelta(text))

    def running(self, command: Command, *, cwd: Path | None = None) -> AbstractAsyncContextManager[Process]:
        """A command, for as long as the block and no longer than the turn: leaving ends the whole group
        of processes that came of it. What it writes is on `output`, and in a spool of the home."""
        return process_of(self._gateway, self.entry.session_id, command, cwd=cwd)

    async def start_background(self, command: Command, *, cwd: Path | None = None) -> Process:
        """Start a command that belongs to the session, and goes on when the turn is over."""
        return await self._gateway.background.start(self.entry.session_id, command, cwd=cwd)

    async def calls(self, text: str, *tool_calls: ToolCall) -> None:
        """The model asked for tools: the row that says so, before any of them begins."""
        await self._row(Message("assistant", text, 0, tool_calls=tool_calls, finish="tool_calls"))

    async def result(self, call: ToolCall, content: str, status: str = "ok") -> None:
        """A tool's result."""
        await self._row(Message("tool", content, 0, tool_call_id=call.id, tool_name=call.name, status=status))

    async def _row(self, row: Message) -> None:
        self.active()
        await self._gateway.database.write(
            transcript.append, self.entry.session_id, self.row_of(row.role, row.content, like=row)
        )

    def row_of(self, role: transcript.Role, content: str, *, like: Message | None = None) -> Message:
        """A row of this turn, behind everything that has happened in it."""
        like = like or Message(role, content, 0)
        return Message(
            role,
            content,
            self._gateway.world.time(),
            self.turn_id,
            place=self._journal.last_seq,
            tool_calls=like.tool_calls,
            finish=like.finish,
            tool_call_id=like.tool_call_id,
            tool_name=like.tool_name,
            status=like.status,
        )
