"""The scripted agent."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import MockClock

from hermes_trio.base.events import Event, MessageDelta, ReasoningAvailable, ToolCompleted, ToolStarted
from hermes_trio.testing import Script, perform


@dataclass
class Seen:
    """A turn that records its events and their times."""

    events: list[tuple[float, Event]] = field(default_factory=list)

    async def emit(self, event: Event) -> None:
        await trio.lowlevel.checkpoint()
        self.events.append((trio.current_time(), event))


async def test_a_script_is_performed_step_by_step(autojump_clock: MockClock) -> None:
    script = (
        Script()
        .thinks("Hm.")
        .takes(5)
        .calls("terminal", seconds=2, preview="ls", result="a b")
        .says("Two files.", pieces=2, seconds=4)
    )
    turn = Seen()
    assert await perform(script, turn) == "Two files."
    assert turn.events == [
        (0, ReasoningAvailable("Hm.")),
        (5, ToolStarted("terminal", "call-2", "ls")),
        (7, ToolCompleted("terminal", "call-2", "ls", "a b", duration=2)),
        (9, MessageDelta("Two f")),
        (11, MessageDelta("iles.")),
    ]


async def test_the_answer_of_a_script_is_its_text_or_what_it_returns() -> None:
    assert await perform(Script(), Seen()) == ""
    assert await perform(Script().says("One. ").says("Two."), Seen()) == "One. Two."
    assert await perform(Script().says("Let me see.").returns("Done.").says("Never."), Seen()) == "Done."


async def test_a_script_can_raise_an_error() -> None:
    with pytest.raises(ZeroDivisionError):
        await perform(Script().raises(ZeroDivisionError()), Seen())


@pytest.mark.parametrize("resists", [0, 3])
async def test_a_script_that_hangs_can_resist_a_cancellation(
    autojump_clock: MockClock, resists: float
) -> None:
    with trio.move_on_after(10):
        await perform(Script().hangs(resists=resists), Seen())
    assert trio.current_time() == 10 + resists


def test_a_script_is_a_value() -> None:
    beginning = Script().says("Hi.")
    assert beginning.takes(1) == Script().says("Hi.").takes(1) != beginning.takes(2)
    assert len(beginning.steps) == 1


@given(st.text(max_size=20), st.integers(1, 30))
async def test_the_pieces_of_a_text_are_the_whole_text(text: str, pieces: int) -> None:
    turn = Seen()
    assert await perform(Script().says(text, pieces=pieces), turn) == text
    deltas = [event.delta for _, event in turn.events if isinstance(event, MessageDelta)]
    assert "".join(deltas) == text
    assert len(deltas) == min(pieces, len(text))
    assert all(deltas)
