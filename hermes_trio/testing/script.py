"""An agent for tests: a turn is a list of steps.

    Script().thinks("Let me see.").calls("terminal", seconds=2, preview="ls").says("Two files.", pieces=5)

A script is a value; each of its methods returns a longer one. `perform` runs it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol

import trio

from ..base.events import Event, MessageDelta, ReasoningAvailable, ToolCompleted, ToolStarted


@dataclass(frozen=True, slots=True)
class Says:
    """Stream a part of the answer, in `pieces` over `seconds`."""

    text: str
    pieces: int = 1
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Thinks:
    """Show reasoning."""

    text: str


@dataclass(frozen=True, slots=True)
class Takes:
    """Be busy without any output."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Calls:
    """Call a tool that takes `seconds`."""

    tool: str
    seconds: float = 0.0
    preview: str = ""
    result: str = ""
    error: bool = False


@dataclass(frozen=True, slots=True)
class Raises:
    """Raise an error."""

    error: Exception


@dataclass(frozen=True, slots=True)
class Hangs:
    """Wait for ever. After a cancellation it goes on for `resists` seconds."""

    resists: float = 0.0


@dataclass(frozen=True, slots=True)
class Returns:
    """End the turn with this answer, in place of the text that was streamed."""

    answer: str


Step = Says | Thinks | Takes | Calls | Raises | Hangs | Returns


@dataclass(frozen=True, slots=True)
class Script:
    """Steps of an agent in one turn."""

    steps: tuple[Step, ...] = ()

    def says(self, text: str, *, pieces: int = 1, seconds: float = 0.0) -> Script:
        return self._then(Says(text, pieces, seconds))

    def thinks(self, text: str) -> Script:
        return self._then(Thinks(text))

    def takes(self, seconds: float) -> Script:
        return self._then(Takes(seconds))

    def calls(
        self, tool: str, *, seconds: float = 0.0, preview: str = "", result: str = "", error: bool = False
    ) -> Script:
        return self._then(Calls(tool, seconds, preview, result, error))

    def raises(self, error: Exception) -> Script:
        return self._then(Raises(error))

    def hangs(self, *, resists: float = 0.0) -> Script:
        return self._then(Hangs(resists))

    def returns(self, answer: str) -> Script:
        return self._then(Returns(answer))

    def _then(self, step: Step) -> Script:
        return Script((*self.steps, step))


class ScriptTurn(Protocol):
    """Part of a turn that a script uses."""

    async def emit(self, event: Event) -> None:
        """Record an event of the turn."""


async def perform(script: Script, turn: ScriptTurn) -> str:
    """Run the steps. Return the answer of `returns`, or else all streamed text."""
    said = ""
    for number, step in enumerate(script.steps):
        match step:
            case Says():
                for piece in _pieces(step.text, step.pieces):
                    await trio.sleep(step.seconds / step.pieces)
                    await turn.emit(MessageDelta(piece))
                said += step.text
            case Thinks():
                await turn.emit(ReasoningAvailable(step.text))
            case Takes():
                await trio.sleep(step.seconds)
            case Calls():
                await _call(step, f"call-{number}", turn)
            case Raises():
                raise step.error
            case Hangs():
                await _hang(step)
            case Returns():
                return step.answer
    return said


async def _call(step: Calls, call_id: str, turn: ScriptTurn) -> None:
    await turn.emit(ToolStarted(step.tool, call_id, step.preview))
    await trio.sleep(step.seconds)
    await turn.emit(
        ToolCompleted(step.tool, call_id, step.preview, step.result, error=step.error, duration=step.seconds)
    )


async def _hang(step: Hangs) -> None:
    try:
        await trio.sleep_forever()
    finally:
        with trio.move_on_after(step.resists, shield=True):
            await trio.sleep_forever()


def _pieces(text: str, count: int) -> Iterator[str]:
    """Split `text` into pieces of nearly equal length; none is empty."""
    cuts = [len(text) * i // count for i in range(count + 1)]
    return (text[start:end] for start, end in pairwise(cuts) if end > start)
