"""Coalescing of the text that a model writes, on its way to the screen.

Each piece is written to the run journal before it is shown, which takes a moment. Text that arrives meanwhile
is collected and shown as one piece afterwards. So a fast model costs few steps, and a slow model is shown
word by word.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import trio

from ..base.events import ReasoningAvailable
from .agent_turn import AgentTurn


class Coalescer:
    """Shows the text of a model in its order, joining pieces that wait. Made by `coalescing`."""

    def __init__(self, turn: AgentTurn, nursery: trio.Nursery) -> None:
        self._turn, self._nursery = turn, nursery
        self._waiting: list[tuple[bool, str]] = []
        """Pieces to show: whether a piece is reasoning, and its text."""
        self.trouble: Exception | None = None
        """Reason why no more text can be shown."""
        # The record of the request has to be on the disk before the first piece, and not before the request
        # itself: the model needs time too.
        self._is_showing = True
        nursery.start_soon(self._show)

    def say(self, text: str, *, is_reasoning: bool = False) -> None:
        """Show the next piece of the answer, or of the model's reasoning. Does not wait."""
        if self._waiting and self._waiting[-1][0] is is_reasoning:
            text = self._waiting.pop()[1] + text
        self._waiting.append((is_reasoning, text))
        if not self._is_showing:
            self._is_showing = True
            self._nursery.start_soon(self._show)

    async def _show(self) -> None:
        """Show the waiting pieces until none is left."""
        try:
            await self._turn.requesting()
            while self._waiting:
                is_reasoning, text = self._waiting.pop(0)
                await (self._turn.emit(ReasoningAvailable(text)) if is_reasoning else self._turn.say(text))
        except Exception as error:  # raised by `coalescing`, without an exception group
            self.trouble = error
            self._nursery.cancel_scope.cancel(reason="the text of the model cannot be stored")
        self._is_showing = False


@asynccontextmanager
async def coalescing(turn: AgentTurn) -> AsyncIterator[Coalescer]:
    """Open a coalescer for one request. On exit, except by cancellation, wait until all text is shown. Raise
    the exception of the block, or the one that prevents text from being shown."""
    raised: Exception | None = None
    async with trio.open_nursery() as nursery:
        coalescer = Coalescer(turn, nursery)
        try:
            yield coalescer
        except Exception as error:
            raised = error  # the nursery would wrap it in a group
    if trouble := coalescer.trouble or raised:
        raise trouble
