"""The schedule: each message of a job comes once, over restarts, kills and changes of the clock."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from datetime import timedelta

import pytest
import trio

from hermes_trio.base.world import World
from hermes_trio.gateway.schedule import LOOK_EVERY
from hermes_trio.state.tables import jobs
from hermes_trio.state.tables.jobs import Job
from tests.gateway.nodes.shared_store import shared_store
from tests.stage import Stage, settled

ORDER = "/schedule every 10m: water the plants"


@dataclass
class WallClock:
    """A time of day that people set."""

    true: World
    ahead: float = 0.0

    def world(self) -> World:
        return replace(self.true, now=lambda: self.true.now() + timedelta(seconds=self.ahead))


def said(stage: Stage) -> list[str]:
    """Return the due times of the messages that the agent got."""
    return [text.partition("due ")[2][11:16] for text, _ in stage.agent.began if "[Scheduled" in text]


def stored(stage: Stage) -> list[Job]:
    with stage.looking() as db:
        return jobs.every(db)


async def test_a_message_comes_at_its_time_into_its_chat_and_is_answered(stage: Stage) -> None:
    async with stage.life():
        await stage.says("/schedule in 20m: call home")
        assert (stage.platform.chat("42").last or "").startswith("Scheduled as ")
        await trio.sleep(1199)
        assert stage.agent.began == []
        await trio.sleep(2)
        assert "due 2026-05-20 12:20 UTC]\ncall home" in stage.agent.prompts[-1]
        assert "call home" in (stage.platform.chat("42").last or "")
    assert stored(stage) == []


async def test_a_job_comes_again_and_again_is_paused_resumed_run_and_removed(stage: Stage) -> None:
    async with stage.life():
        await stage.says(ORDER)
        [job] = stored(stage)
        await trio.sleep(1201)
        await stage.says(f"/schedule pause {job.job_id}")
        await trio.sleep(1200)
        assert said(stage) == ["12:10", "12:20"]
        await stage.says("/schedule")
        assert f"{job.job_id}  every 10m · paused · water the plants" in (
            stage.platform.chat("42").last or ""
        )
        await stage.says(f"/schedule resume {job.job_id}")
        await trio.sleep(600)
        assert said(stage) == ["12:10", "12:20", "12:50"]
        await stage.says(f"/schedule run {job.job_id}")
        await trio.sleep(1)
        assert len(said(stage)) == 4
        await stage.says(f"/schedule remove {job.job_id}")
        await trio.sleep(1200)
        assert len(said(stage)) == 4


async def test_a_scheduled_message_interrupts_no_turn(stage: Stage) -> None:
    async def long(_: object) -> str:
        await trio.sleep(100)
        return "done"

    stage.agent.does("work", long)
    async with stage.life():
        await stage.says("/schedule in 1m: call home")
        await stage.says("work")
        await trio.sleep(250)
        assert [how for _, how, _ in stage.agent.left] == ["answered", "answered"]


@pytest.mark.parametrize(
    ("missed", "got"),
    [("once", ["12:50"]), ("all", ["12:20", "12:30", "12:40", "12:50"]), ("skip", [])],
)
async def test_the_missed_times_of_a_downtime_follow_the_policy_of_the_job(
    stage: Stage, missed: str, got: list[str]
) -> None:
    async with stage.life():
        await stage.says(ORDER)
        await trio.sleep(660)
    with stage.looking() as db:
        db.execute("UPDATE jobs SET missed = ?", (missed,))
    await trio.sleep(2400)
    async with stage.life():
        await trio.sleep(30)
        assert said(stage) == ["12:10", *got]
        await trio.sleep(600)
        assert said(stage) == ["12:10", *got, "13:00"]


async def test_a_clock_that_is_set_back_repeats_nothing(stage: Stage) -> None:
    clock = WallClock(stage.world)
    stage.world = clock.world()
    async with stage.life():
        await stage.says(ORDER)
        await trio.sleep(601)
        clock.ahead = -1800
        await trio.sleep(1860)
        assert said(stage) == ["12:10"]
        await trio.sleep(600)
        assert said(stage) == ["12:10", "12:20"]


async def test_a_clock_that_is_set_forward_or_a_machine_that_slept_is_noticed(stage: Stage) -> None:
    clock = WallClock(stage.world)
    stage.world = clock.world()
    async with stage.life():
        await stage.says(ORDER)
        await trio.sleep(10)
        clock.ahead = 3600
        await trio.sleep(LOOK_EVERY + 1)
        assert said(stage) == ["13:00"]


async def test_a_person_without_access_gets_no_scheduled_turn(stage: Stage) -> None:
    async with stage.life():
        await stage.says(ORDER)
    stage.allow(allow_from=("somebody else",))
    async with stage.life():
        await trio.sleep(1300)
        assert stage.agent.began == []


async def test_a_chat_sees_and_changes_only_its_own_jobs(stage: Stage) -> None:
    async with stage.life():
        await stage.says(ORDER)
        [job] = stored(stage)
        await stage.says("/schedule", chat="43")
        assert stage.platform.chat("43").last == "Nothing is scheduled."
        await stage.says(f"/schedule remove {job.job_id}", chat="43")
        assert "There is no job" in (stage.platform.chat("43").last or "")
    assert stored(stage) == [job]


async def test_a_job_that_cannot_be_read_says_what_can(stage: Stage) -> None:
    async with stage.life():
        await stage.says("/schedule tomorrowish: x")
        assert "`every 2h`" in (stage.platform.chat("42").last or "")
        await stage.says("/schedule nonsense")
        assert "/schedule WHEN: TEXT" in (stage.platform.chat("42").last or "")


async def test_each_due_time_has_one_message_over_200_kills_of_two_gateways(stage: Stage) -> None:
    """Kill one of two gateways at a random moment, again and again, with a message due each minute."""
    seed = random.randrange(10**9)  # noqa: S311 - a seed that a failure prints
    chance = random.Random(seed)  # noqa: S311
    async with shared_store(stage) as store:
        nodes = [await store.start("one"), await store.start("two")]
        await stage.says("/schedule every 1m: tick")
        with stage.looking() as db:
            db.execute("UPDATE jobs SET missed = 'all'")
            [job] = jobs.every(db)
        for _ in range(200):
            await trio.sleep(chance.uniform(0, 45))
            at = chance.randrange(2)
            nodes[at].kill()
            await nodes[at].over.wait()
            nodes[at] = await store.start(nodes[at].node.name)
        await trio.sleep(120)
        until = stage.world.time()
        await settled()
        with stage.looking() as db:
            query = "SELECT message_key, count(*) FROM inbox WHERE message_key LIKE ? GROUP BY message_key"
            found = db.execute(query, ("key:job:%",)).fetchall()
    times = range(1, int((until - job.created_at) // 60) + 1)
    expected = [f"key:job:{job.job_id}:{job.created_at + 60 * number:.3f}" for number in times]
    assert sorted(name for name, _ in found) == sorted(expected), f"seed {seed}"
    assert {count for _, count in found} == {1}
