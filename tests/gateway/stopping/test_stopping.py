"""Stopping takes the grace and a known little, whatever hangs: on a clock that jumps, so that a second too
many is seen."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractContextManager, asynccontextmanager
from typing import get_args

import pytest
import trio
import trio.testing

from hermes_trio.host.loop.worker import Runner, inline_worker
from hermes_trio.platform.contract import FloodWait, Traits
from hermes_trio.testing import MemoryPlatform, Script
from hermes_trio.testing.memory_platform import MemoryLink
from hermes_trio.testing.stage import Call
from tests.disk import Disk
from tests.stage import Agent, Stage

BEGINS = Script().says("I begin.")
EACH = ("store", "journal", "status", "sends", "disconnect", "agent", "memory of the agent")
EVERYTHING = ", ".join(EACH)


class Reluctant(MemoryPlatform):
    """Leaving it may never end, until that is cancelled."""

    leaves = True

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[MemoryLink]:
        async with super().connect() as link:
            yield link
            if not self.leaves:
                await trio.sleep_forever()


class Trouble:
    """What hangs in a gateway, from one moment on and for ever."""

    def __init__(self, stage: Stage, what: str) -> None:
        self.what, self._disk, self._agent = what.split(", "), Disk(), stage.agent
        self._platform = stage.platform = Reluctant(traits=Traits(edits=True, typing=True))
        stage.worker, stage.opened_agent = self.worker, self.agent()
        # As long as a process that cannot be killed holds a turn.
        stage.agent.on("hang", BEGINS.hangs(resists=2 if "agent" in self.what else 0))

    def worker(self, name: str) -> AbstractContextManager[Runner]:
        hangs = name.split("-")[0] in self.what
        return self._disk.worker(name) if hangs else inline_worker(name)

    @asynccontextmanager
    async def agent(self) -> AsyncIterator[Agent]:
        yield self._agent
        if "memory of the agent" in self.what:
            await trio.sleep_forever()

    async def begins(self, at: float) -> None:
        await trio.sleep_until(at)
        self._disk.hangs = True
        if "sends" in self.what:
            for call in get_args(Call):
                self._platform.hangs(call, times=1000)
        if "disconnect" in self.what:
            self._platform.leaves, self._platform.disconnect_takes = False, 0.5


@pytest.mark.parametrize(
    ("what", "since", "grace"),
    [
        *((what, since, grace) for what in EACH for since, grace in ((4, 10), (15.1, 10), (4, 0))),
        *((EVERYTHING, since, 10) for since in (4, 5, 6, 15, 15.1, 16)),
        (EVERYTHING, 4, 0),
        (EVERYTHING, 5, 0),
        ("store, status", 4, 10),
        ("store, journal", 4, 10),
    ],
)
async def test_whatever_hangs_the_gateway_is_gone_five_seconds_after_the_grace(
    stage: Stage, what: str, since: float, grace: float
) -> None:
    trouble = Trouble(stage, what)
    async with stage.life() as gateway, trio.open_nursery() as nursery:
        await stage.says("hang")
        nursery.start_soon(trouble.begins, since)
        await trio.sleep_until(5)
        gateway.stop(grace=grace)
        await trio.sleep(60)
        assert stage.ended_at is not None, "it hangs"
        assert 5 + grace <= stage.ended_at <= 5 + grace + 5
    await answered_by_the_next_life(stage)


async def answered_by_the_next_life(stage: Stage) -> None:
    """Whatever hung is well again; nothing is lost, and nothing is done twice."""
    stage.platform = MemoryPlatform(traits=stage.platform.traits)
    stage.worker, stage.opened_agent = inline_worker, None
    stage.agent.on("hang", Script().says("All done."))
    for _ in range(2):
        async with stage.life():
            await trio.sleep(5)
    assert [turn.outcome for turn in stage.turns()] == ["cut", "answered"]
    assert stage.platform.chat("42").texts == ["All done."]
    assert stage.entry().mark is None


@pytest.mark.parametrize("since", [4, 6, 7])
async def test_who_is_in_a_hurry_waits_five_seconds_and_no_more(stage: Stage, since: float) -> None:
    trouble = Trouble(stage, EVERYTHING)
    async with stage.life() as gateway, trio.open_nursery() as nursery:
        await stage.says("hang")
        nursery.start_soon(trouble.begins, since)
        await trio.sleep_until(5)
        gateway.stop(grace=600)
        await trio.sleep_until(7)
        gateway.control.hurry()
        await trio.sleep_until(8)
        gateway.control.hurry()
        await trio.sleep(60)
        assert stage.ended_at is not None
        assert 7 <= stage.ended_at <= 12


async def test_a_hurry_counts_although_the_ending_is_still_being_written_down(stage: Stage) -> None:
    stage.agent.on("hang", Script().hangs())
    async with trio.open_nursery() as nursery:
        disk = Disk(nursery)
        stage.worker = disk.worker
        async with stage.life() as gateway:
            await stage.says("hang")
            disk.seconds = 0.5
            gateway.stop(grace=600)
            await trio.sleep(0.1)
            gateway.control.hurry()
            await trio.sleep(60)
            assert stage.ended_at is not None
            assert stage.ended_at < 5


async def test_a_hurry_in_the_very_moment_in_which_the_ending_is_written_down_counts(stage: Stage) -> None:
    stage.agent.on("hang", Script().hangs())
    home = stage.home
    for attempt in range(20):  # Trio shuffles who comes first
        stage.home = home.with_name(f"home-{attempt}")
        async with trio.open_nursery() as nursery:
            disk = Disk(nursery)
            stage.worker = disk.worker
            async with stage.life() as gateway:
                await stage.says("hang")
                disk.seconds = 0.5
                began = trio.current_time()
                gateway.stop(grace=600)
                await trio.sleep(0.5)
                gateway.control.hurry()
                await trio.sleep(60)
                assert stage.ended_at is not None
                assert stage.ended_at < began + 5


async def gone(stage: Stage, turns: int, *, resists: float = 0, disk_takes: float = 0) -> float:
    """How long after the grace the gateway is gone, if so many turns hang."""
    async with trio.open_nursery() as nursery:
        disk = Disk(nursery)
        stage.worker = disk.worker
        async with stage.life() as gateway:
            for number in range(turns):
                stage.agent.on(f"hang {number}", Script().hangs(resists=resists))
                await stage.says(f"hang {number}", chat=str(number))
            disk.seconds = disk_takes
            cut_at = trio.current_time() + 10
            gateway.stop(grace=10)
            await trio.sleep(60)
            assert stage.ended_at is not None
            assert [stage.turns(str(number))[0].outcome for number in range(turns)] == ["cut"] * turns
    return stage.ended_at - cut_at


async def test_what_resists_holds_the_gateway_for_exactly_so_long(stage: Stage) -> None:
    assert await gone(stage, 3, resists=1.5) == 1.5


@pytest.mark.parametrize(
    ("what", "seconds"),
    [("sends", 2), ("journal", 2), ("status", 0.5), ("disconnect", 0.5), ("agent", 2)],
)
async def test_what_hangs_alone_holds_the_gateway_for_exactly_so_long(
    stage: Stage, what: str, seconds: float
) -> None:
    trouble = Trouble(stage, what)
    async with stage.life() as gateway:
        await stage.says("hang")
        await trio.sleep_until(5)
        gateway.stop(grace=10)
        await trouble.begins(14)
        await trio.sleep(60)
        assert stage.ended_at == 15 + seconds


async def test_with_nobody_at_work_a_disk_that_hangs_keeps_nobody_waiting_for_the_grace(stage: Stage) -> None:
    trouble = Trouble(stage, "store, journal, status")
    async with stage.life() as gateway:
        await stage.says("hello")
        await trouble.begins(20)
        gateway.stop(grace=600)
        await trio.sleep(60)
        assert stage.ended_at is not None
        assert stage.ended_at < 30


async def test_the_last_words_of_many_take_as_long_as_those_of_one(stage: Stage) -> None:
    one = await gone(stage, 1, disk_takes=0.125)
    assert one > 0
    assert await gone(stage, 30, disk_takes=0.125) == one


async def test_a_chat_that_wants_silence_for_long_keeps_nobody_waiting(stage: Stage) -> None:
    stage.platform.fails("send", FloodWait(600), times=9)
    async with stage.life() as gateway:
        await stage.says("hello")
        await trio.sleep(20)
        gateway.stop(grace=100)
        await trio.sleep(60)
        assert stage.ended_at == 20
