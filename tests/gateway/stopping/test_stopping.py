"""Duration of a stop: the grace and a known margin, whatever hangs. The virtual clock makes it exact."""

from __future__ import annotations

import pytest
import trio

from hermes_trio.platform.contract import FloodWait
from hermes_trio.testing import Script
from tests.disk import Disk
from tests.gateway.stopping.trouble import EACH, EVERYTHING, Trouble, answered_by_the_next_life
from tests.stage import Stage


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
async def test_a_stop_ends_five_seconds_after_the_grace_whatever_hangs(
    stage: Stage, what: str, since: float, grace: float
) -> None:
    trouble = Trouble(stage, what)
    async with stage.life() as gateway, trio.open_nursery() as nursery:
        await stage.says("hang")
        nursery.start_soon(trouble.begins, since)
        await trio.sleep_until(5)
        gateway.stop(grace=grace)
        await trio.sleep(60)
        assert stage.ended_at is not None, "the stop hangs"
        assert 5 + grace <= stage.ended_at <= 5 + grace + 5
    await answered_by_the_next_life(stage)


@pytest.mark.parametrize("since", [4, 6, 7])
async def test_a_hurried_stop_takes_at_most_five_seconds(stage: Stage, since: float) -> None:
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


async def test_a_hurry_during_the_commit_of_the_ending_counts(stage: Stage) -> None:
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


async def test_a_hurry_at_the_end_of_the_commit_of_the_ending_counts(stage: Stage) -> None:
    stage.agent.on("hang", Script().hangs())
    home = stage.home
    for attempt in range(20):  # Trio shuffles the order of the tasks
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


async def time_after_grace(stage: Stage, turns: int, *, resists: float = 0, disk_takes: float = 0) -> float:
    """Return the seconds from the end of the grace to the end of the gateway, with hanging turns."""
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


async def test_turns_that_resist_delay_the_stop_by_exactly_their_time(stage: Stage) -> None:
    assert await time_after_grace(stage, 3, resists=1.5) == 1.5


@pytest.mark.parametrize(
    ("what", "seconds"),
    [("sends", 2), ("journal", 2), ("status", 0.5), ("disconnect", 0.5), ("agent", 2)],
)
async def test_one_hanging_part_delays_the_stop_by_exactly_its_limit(
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


async def test_a_stop_without_turns_does_not_wait_for_a_hanging_disk(stage: Stage) -> None:
    trouble = Trouble(stage, "store, journal, status")
    async with stage.life() as gateway:
        await stage.says("hello")
        await trouble.begins(20)
        gateway.stop(grace=600)
        await trio.sleep(60)
        assert stage.ended_at is not None
        assert stage.ended_at < 30


async def test_the_ends_of_many_cut_turns_take_as_long_as_that_of_one(stage: Stage) -> None:
    one = await time_after_grace(stage, 1, disk_takes=0.125)
    assert one > 0
    assert await time_after_grace(stage, 30, disk_takes=0.125) == one


async def test_a_stop_does_not_wait_for_a_flood_wait(stage: Stage) -> None:
    stage.platform.fails("send", FloodWait(600), times=9)
    async with stage.life() as gateway:
        await stage.says("hello")
        await trio.sleep(20)
        gateway.stop(grace=100)
        await trio.sleep(60)
        assert stage.ended_at == 20
