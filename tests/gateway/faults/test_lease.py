"""The lease of a life: a gateway that cannot prove that its life goes on ends its own work, in time, and one
whose work was taken over ends it at once. On the virtual clock."""

from __future__ import annotations

from dataclasses import replace

import pytest
import trio

from hermes_trio.gateway.ending.endings_table import Cause, Exit, Supervisor, consequences
from hermes_trio.gateway.nodes.lease import Node
from hermes_trio.host.home.state_file import is_wanted
from hermes_trio.state.db.engine import Db
from hermes_trio.state.rules.settle import settle_cut_turns
from hermes_trio.state.tables import lives
from hermes_trio.testing import Script
from tests.disk import Disk, full_disk
from tests.stage import Stage

LEASE = 30.0
SHARED = Node("here", lease=LEASE)


def beat(stage: Stage) -> int:
    """Return the beat of the only life that goes on."""
    with stage.looking() as db:
        [life] = lives.living(db)
    return life.beat


def take_over(stage: Stage) -> None:
    """Take over the work of the gateway, as another one does."""
    with stage.looking() as db:
        for seen in lives.living(db):
            assert lives.end(db, seen, "another", 0.0)
        settle_cut_turns(db, stage.world.time())


async def test_a_stop_ends_the_life_and_a_crash_leaves_that_to_the_next_one(stage: Stage) -> None:
    async with stage.life():
        await stage.says("hello")
    with stage.looking() as db:
        assert lives.living(db) == []
        rows = db.execute("SELECT life, ended_by FROM lives").fetchall()
    assert [life == by for life, by in rows] == [True]


async def test_a_gateway_that_does_nothing_proves_at_least_five_times_in_a_lease_that_it_lives(
    stage: Stage,
) -> None:
    async with stage.life(node=SHARED):
        first = beat(stage)
        await trio.sleep(100 * LEASE)
        assert beat(stage) >= first + 500


async def test_a_gateway_alone_in_its_home_writes_no_proofs(stage: Stage) -> None:
    async with stage.life():
        await trio.sleep(100)
        first = beat(stage)
        await trio.sleep(1000)
        assert beat(stage) == first


@pytest.mark.parametrize("trouble", ["hangs", "is full"])
async def test_a_gateway_that_cannot_store_ends_its_work_before_anybody_may_take_over(
    stage: Stage, trouble: str
) -> None:
    disk = Disk(only=["store-writer"])
    stage.worker = disk.worker
    stage.agent.on("long", Script().takes(300).says("late"))
    async with stage.life(node=SHARED) as gateway:
        await stage.says("long")
        proved_at = trio.current_time()
        if trouble == "hangs":
            disk.hangs = True
            await trio.sleep(LEASE)
        else:
            async with full_disk(gateway.home.database):
                await trio.sleep(LEASE)
        [(said, how, left_at)] = stage.agent.left
        assert (said, how) == ("long", "cancelled")
        assert proved_at + LEASE / 2 < left_at <= proved_at + LEASE * 5 / 6
        assert not stage.platform.connected
        ending = gateway.control.current
        assert ending is not None
        assert ending.cause is Cause.LIFE_OVER
        disk.recovers()
        await trio.sleep(10)
        assert stage.ended_at is not None
    assert is_wanted(stage.status())
    assert consequences(ending, Supervisor.NONE).exit is Exit.FAILURE
    async with stage.life(node=SHARED):
        await trio.sleep(400)
        assert stage.platform.chat("42").texts[-1] == "late"


async def test_a_gateway_alone_in_its_home_waits_for_its_disk(stage: Stage) -> None:
    disk = Disk(only=["store-writer"])
    stage.worker = disk.worker
    stage.agent.on("long", Script().takes(300).says("late"))
    async with stage.life():
        await stage.says("long")
        disk.hangs = True
        await trio.sleep(1000)
        disk.recovers()
        await trio.sleep(100)
        assert stage.platform.chat("42").texts[-1].endswith("late")


async def test_what_was_taken_over_stops_at_the_next_thing_it_stores(stage: Stage) -> None:
    """A process was stopped by the kernel for longer than a lease: its clock says nothing."""
    stage.agent.on("long", Script().takes(3).says("by the former one"))
    async with stage.life(node=SHARED) as gateway:
        await stage.says("long")
        take_over(stage)
        await trio.sleep(10)
        assert stage.ended_at is not None
        ending = gateway.control.current
        assert ending is not None
        assert ending.cause is Cause.LIFE_OVER
    assert stage.platform.chat("42").texts == []
    assert stage.outcomes() == ["cut"]
    stage.agent.on("long", Script().says("by the next one"))
    async with stage.life(node=replace(SHARED, name="there")):
        await trio.sleep(100)
    assert stage.platform.chat("42").texts == ["by the next one"]


async def test_a_message_that_arrives_after_the_take_over_is_not_acknowledged(stage: Stage) -> None:
    async with stage.life(node=SHARED):
        take_over(stage)
        stage.platform.post("hello")
        await trio.sleep(5)
        assert not [one for one in stage.platform.history if one.what == "accept"]
        assert stage.ended_at is not None
    async with stage.life():
        await trio.sleep(5)
    assert stage.platform.chat("42").texts == ["You said: hello"]


async def test_a_life_that_another_home_runs_is_left_alone_at_a_start(stage: Stage) -> None:
    def begin(db: Db) -> None:
        lives.begin(db, "other", "there", 0.0)

    async with stage.life() as gateway:
        await gateway.home.database.write(begin)
    async with stage.life(node=SHARED):
        with stage.looking() as db:
            assert {row.node for row in lives.living(db)} == {"there", "here"}
