"""Turns on a disk that takes 20 ms per commit: how many commits a turn waits for, and how turns share one.

The requests come without a socket, on the virtual clock, which only the disk and the model move."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass, field
from typing import NamedTuple

import pytest
import trio
from trio.testing import MockClock

from hermes_trio.agent.model_agent import Agent
from hermes_trio.agent.providers.model import Finished, Item, Model, ModelRequest, TextDelta
from hermes_trio.agent.providers.model_messages import UserMessage
from hermes_trio.agent.toolset import Toolbox
from tests.disk import Disk
from tests.web.conftest import WebStage
from tests.web.direct_request import complete_directly

COMMIT = 0.02
THINKING = 1.0


class Waits(NamedTuple):
    """The numbers of commits for which a turn waits in a row, a commit that has begun already included."""

    until_accepted: int
    until_asked: int
    """From the request until the model is asked, with those until it is accepted."""
    after_the_answer: int


@dataclass
class ThinkingModel:
    """A model that answers after a second."""

    asked: dict[str, float] = field(default_factory=dict)
    """The time of the latest request with each text."""
    name: str = "thinking"

    @asynccontextmanager
    async def stream(self, request: ModelRequest) -> AsyncIterator[AsyncIterator[Item]]:
        said = request.messages[-1]
        assert isinstance(said, UserMessage)
        self.asked[said.text] = trio.current_time()
        await trio.sleep(THINKING)
        yield _answer()


async def _answer() -> AsyncIterator[Item]:
    await trio.lowlevel.checkpoint()
    yield TextDelta("Done.")
    yield Finished("stop")


@dataclass
class SlowLife:
    """A gateway with a slow disk."""

    stage: WebStage
    disk: Disk
    model: ThinkingModel

    async def turn(self, session: str) -> Waits:
        """Complete a chat in this session, and return what that waited for."""
        assert self.stage.web is not None
        began, sent = trio.current_time(), list[float]()
        await complete_directly(self.stage.web, session, session, lambda _: sent.append(trio.current_time()))
        asked = self.model.asked[session]
        return Waits(
            _commits(sent[0] - began), _commits(asked - began), _commits(sent[-1] - asked - THINKING)
        )

    async def turns(self, number: int, *, apart: float = 0.0) -> tuple[set[Waits], int]:
        """Run a turn in each of so many sessions, which begin these seconds apart. Return what they waited
        for, and the number of commits that were made."""
        found: set[Waits] = set()
        self.disk.jobs.clear()

        async def later(nth: int) -> None:
            await trio.sleep(nth * apart)
            found.add(await self.turn(f"session-{nth}"))

        async with trio.open_nursery() as nursery:
            for nth in range(number):
                nursery.start_soon(later, nth)
        return found, len(self.disk.jobs)


def _commits(seconds: float) -> int:
    return math.ceil(round(seconds / COMMIT, 6))


@pytest.fixture
async def slow(web_stage: WebStage, autojump_clock: MockClock) -> AsyncIterator[SlowLife]:
    model = ThinkingModel()

    def open_model() -> nullcontext[Model]:
        return nullcontext(model)

    agent = Agent(open_model, Toolbox(open_model, {}), web_stage.world, window=None, most=5)
    web_stage.opened_agent = nullcontext(agent)
    async with trio.open_nursery() as nursery:
        # The other jobs take no time, but a nursery too: see `counted`.
        disk = Disk(nursery, only={"store-writer"}, usual=Disk(nursery).worker)
        web_stage.worker = disk.worker
        async with web_stage.served():
            disk.seconds = COMMIT
            yield SlowLife(web_stage, disk, model)
            disk.seconds = 0.0


async def test_a_turn_waits_for_two_commits_before_the_model_is_asked_and_for_one_after_it(
    slow: SlowLife,
) -> None:
    assert await slow.turn("one") == Waits(1, 3, 1), "the prompt of a new session is stored"
    for _ in range(3):
        assert await slow.turn("one") == Waits(1, 2, 1)


async def test_twenty_turns_of_one_moment_need_the_commits_of_one(slow: SlowLife) -> None:
    assert await slow.turns(20) == ({Waits(1, 3, 1)}, 4)
    for _ in range(3):
        assert await slow.turns(20) == ({Waits(1, 2, 1)}, 3)


async def test_two_hundred_turns_of_one_moment_need_the_commits_of_two(slow: SlowLife) -> None:
    # All are accepted in one commit. Then they begin in two steps, because of the limit of running turns.
    _, made = await slow.turns(200)
    assert made <= 1 + 2 * 3
    for _ in range(3):
        _, made = await slow.turns(200)
        assert made <= 1 + 2 * 2


async def test_each_commit_of_a_turn_waits_for_at_most_the_one_before_it(slow: SlowLife) -> None:
    await slow.turns(200)  # now each session has its prompt
    waits, made = await slow.turns(200, apart=0.001)
    assert max(one.until_accepted for one in waits) <= 2
    assert max(one.until_asked for one in waits) <= 2 * 2
    assert max(one.after_the_answer for one in waits) <= 2
    # The turns need 600 commits. For as long as they begin, and again for as long as they end, one commit is
    # made after the other: for 0.2 s, and for the three commits of the last turn.
    assert made <= 2 * (0.2 / COMMIT + 3)
