"""Text of a model is shown in its order and completely, however long each piece takes to store."""

from __future__ import annotations

from typing import Any, cast

import pytest
import trio
from trio.testing import MockClock

from hermes_trio.agent.agent_turn import AgentTurn
from hermes_trio.agent.coalesce import coalescing
from hermes_trio.base.events import Event, ReasoningAvailable


class SlowTurn:
    """A turn that needs a second to store each piece."""

    def __init__(self, fails_at: int = 1000) -> None:
        self.said: list[str] = []
        self.fails_at = fails_at

    async def requesting(self) -> None:
        if not self.said:
            await self._write("asked")

    async def say(self, text: str) -> None:
        await self._write(text)

    async def emit(self, event: Event) -> None:
        assert isinstance(event, ReasoningAvailable)
        await self._write(f"({event.text})")

    async def _write(self, text: str) -> None:
        await trio.sleep(1)
        if len(self.said) == self.fails_at:
            raise OSError("the disk is full")
        self.said.append(text)


def open_coalescer(turn: SlowTurn) -> Any:
    return coalescing(cast(AgentTurn, turn))


async def test_pieces_that_wait_are_shown_as_one(autojump_clock: MockClock) -> None:
    turn = SlowTurn()
    async with open_coalescer(turn) as shown:
        for piece in ("a", "b", "c"):
            shown.say(piece)
        await trio.sleep(2.5)
        assert turn.said == ["asked", "abc"]
        shown.say("d")
        shown.say("hm", is_reasoning=True)
        shown.say("m", is_reasoning=True)
        shown.say("e")
        assert trio.current_time() == 2.5, "`say` does not wait"
    assert turn.said == ["asked", "abc", "d", "(hmm)", "e"]


async def test_text_before_an_error_is_shown(autojump_clock: MockClock) -> None:
    turn = SlowTurn()

    async def writes() -> None:
        async with open_coalescer(turn) as shown:
            shown.say("half")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await writes()
    assert turn.said == ["asked", "half"]


@pytest.mark.parametrize("at", [0, 1])
async def test_the_model_is_not_read_if_its_text_cannot_be_stored(at: int, autojump_clock: MockClock) -> None:
    turn = SlowTurn(fails_at=at)

    async def writes() -> None:
        async with open_coalescer(turn) as shown:
            shown.say("half")
            await trio.sleep_forever()

    with pytest.raises(OSError, match="disk is full"):
        await writes()
    assert trio.current_time() == at + 1


async def test_a_cancelled_coalescer_shows_nothing_more(autojump_clock: MockClock) -> None:
    turn = SlowTurn()
    with trio.move_on_after(1.5) as patience:
        async with open_coalescer(turn) as shown:
            shown.say("half")
            await trio.sleep_forever()
    assert patience.cancelled_caught
    assert turn.said == ["asked"]
    assert trio.current_time() == 1.5
