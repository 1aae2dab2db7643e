"""What a model writes, on its way to the screen.

Each piece is in the run journal before it is shown, and that takes a moment. What the model writes in that
moment is read all the same, and said as one piece when the one before it has been: a fast model costs few
steps, a slow one is shown word by word.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import trio

from ..base.events import ReasoningAvailable
from .agent_turn import AgentTurn


class Coalescer:
    """Says what a model writes, in its order. Made by `speaking`."""

    def __init__(self, turn: AgentTurn, nursery: trio.Nursery) -> None:
        self._turn, self._nursery = turn, nursery
        self._waiting: list[tuple[bool, str]] = []
        self.trouble: Exception | None = None
        """Why it cannot say anything more."""
        # That a model is asked has to be on the disk before anything is said, and need not be before it is
        # asked: the model takes its time too.
        self._speaks = True
        nursery.start_soon(self._speak)

    def say(self, text: str, *, aloud: bool = True) -> None:
        """The next piece of the answer; or of what the model thinks."""
        if self._waiting and self._waiting[-1][0] is aloud:
            text = self._waiting.pop()[1] + text
        self._waiting.append((aloud, text))
        if not self._speaks:
            self._speaks = True
            self._nursery.start_soon(self._speak)

    async def _speak(self) -> None:
        try:
            await self._turn.requesting()
            while self._waiting:
                aloud, text = self._waiting.pop(0)
                await (self._turn.say(text) if aloud else self._turn.emit(ReasoningAvailable(text)))
        except Exception as error:  # raised where the model is read, and in no group: see `speaking`
            self.trouble = error
            self._nursery.cancel_scope.cancel(reason="what is written cannot be kept")
        self._speaks = False


@asynccontextmanager
async def coalescing(turn: AgentTurn) -> AsyncIterator[Coalescer]:
    """A voice. When the block has been left, whichever way but cancelled, all that it was given has been
    said. Raises what the block raises, and what keeps the voice from speaking."""
    raised: Exception | None = None
    async with trio.open_nursery() as nursery:
        voice = Coalescer(turn, nursery)
        try:
            yield voice
        except Exception as error:
            raised = error  # the nursery would make a group of it
    if trouble := voice.trouble or raised:
        raise trouble
