"""The limit of turns on a slow machine: turns wait before they begin, and nothing else does.

A slow step of the event loop is simulated by a jump of the clock within it.
"""

from __future__ import annotations

from functools import partial

import trio
import trio.lowlevel
from trio.testing import MockClock

from hermes_trio.gateway.outbound import texts
from hermes_trio.gateway.session.turn_limit import AHEAD, ALWAYS, MEASURE_EVERY
from hermes_trio.gateway.turn.context import TurnContext
from hermes_trio.testing import Script
from tests.stage import Agent, Stage, settled

CROWD = 40
SECONDS = 10


class CostlyAgent(Agent):
    """An agent that works for some seconds in steps; its first turn blocks the loop at each step."""

    def __init__(self, clock: MockClock, blocks: float) -> None:
        super().__init__()
        self.clock, self.blocks, self.seconds = clock, blocks, float(SECONDS)
        self.at_once = 0
        self._running = 0

    async def __call__(self, turn: TurnContext) -> str:
        if turn.said[0].text != "work":
            return await super().__call__(turn)
        await turn.requesting()
        first = self._running == 0
        self._running += 1
        self.at_once = max(self.at_once, self._running)
        try:
            with trio.move_on_after(self.seconds):
                while True:
                    if first:
                        self.clock.jump(self.blocks)
                    await trio.sleep(0.1)
        finally:
            self._running -= 1
        return "done"


async def start_turns(stage: Stage, count: int) -> None:
    async with trio.open_nursery() as people:
        for chat in range(count):
            people.start_soon(partial(stage.platform.says, "work", chat=f"w{chat}"))


async def test_a_turn_begins_when_the_loop_has_caught_up(stage: Stage, autojump_clock: MockClock) -> None:
    stage.agent = CostlyAgent(autojump_clock, blocks=0.5)
    async with stage.life():
        await start_turns(stage, CROWD)
        await trio.sleep(3)
        await stage.says("hello")
        assert stage.platform.chat("42").texts == [texts.waits_for_room(CROWD)]
        await trio.sleep(SECONDS)
        assert stage.platform.chat("42").last == "You said: hello"
        assert [stage.platform.chat(f"w{chat}").last for chat in range(CROWD)] == ["done"] * CROWD


async def test_all_turns_begin_if_the_loop_keeps_up(stage: Stage, autojump_clock: MockClock) -> None:
    stage.agent = CostlyAgent(autojump_clock, blocks=0.0)
    async with stage.life():
        await start_turns(stage, CROWD)
        await trio.sleep(3)
        await stage.says("hello")
        assert stage.platform.chat("42").texts == ["You said: hello"]


async def test_a_few_turns_run_on_any_slow_loop(stage: Stage, autojump_clock: MockClock) -> None:
    stage.agent = CostlyAgent(autojump_clock, blocks=0.5)
    async with stage.life():
        await start_turns(stage, ALWAYS - 1)
        await trio.sleep(3)
        await stage.says("hello")
        assert stage.platform.chat("42").last == "You said: hello"


async def test_a_burst_of_turns_begins_in_steps_and_completely(
    stage: Stage, autojump_clock: MockClock
) -> None:
    count = 3 * AHEAD
    stage.agent = agent = CostlyAgent(autojump_clock, blocks=0.0)
    async with stage.life() as gateway:
        gateway.control.hold(True)
        await start_turns(stage, count)
        await settled()
        gateway.control.hold(False)
        await trio.lowlevel.checkpoint()
        await settled()
        assert agent.at_once == AHEAD
        await trio.sleep(3 * MEASURE_EVERY)
        assert agent.at_once == count


async def test_the_limit_rises_again_after_a_lag_with_short_turns(
    stage: Stage, autojump_clock: MockClock
) -> None:
    stage.agent = agent = CostlyAgent(autojump_clock, blocks=0.5)
    agent.seconds = 1.0
    async with stage.life():
        await start_turns(stage, CROWD)
        await trio.sleep(SECONDS)
        agent.blocks, agent.seconds, agent.at_once = 0.0, SECONDS, 0
        await start_turns(stage, CROWD)
        await trio.sleep(3)
        assert agent.at_once == CROWD


async def test_a_stop_does_not_wait_for_turns_that_wait_for_the_loop(
    stage: Stage, autojump_clock: MockClock
) -> None:
    stage.agent = CostlyAgent(autojump_clock, blocks=0.5)
    stage.agent.on("hello", Script().says("Hi."))
    async with stage.life() as gateway:
        await start_turns(stage, CROWD)
        await trio.sleep(3)
        await stage.says("hello")
        gateway.stop(grace=0)
    assert stage.pending() == ["hello"]
    async with stage.life():
        await trio.sleep(1)
        assert stage.platform.chat("42").last == "Hi."
