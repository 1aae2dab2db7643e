"""Races at the moment in which a turn begins: a second message or a command comes before its commits are
done."""

from __future__ import annotations

import pytest
import trio

from hermes_trio.state.tables import inbox
from hermes_trio.testing import Script
from tests.disk import Disk
from tests.stage import Busy, Stage, everyone, settled

READS_AND_WRITES = [(0.5, 0.0), (0.0, 0.5), (0.5, 0.2), (0.2, 0.5)]


@pytest.mark.parametrize("mode", ["interrupt", "queue", "steer"])
@pytest.mark.parametrize(("reads", "writes"), READS_AND_WRITES)
async def test_a_message_never_cuts_the_turn_that_it_begins(
    stage: Stage, mode: Busy, reads: float, writes: float
) -> None:
    stage.config = everyone(busy=mode)
    async with trio.open_nursery() as nursery:
        reader = Disk(nursery, only=("store-reader",), reports_late=True)
        writer = Disk(nursery, only=("store-writer",), reports_late=True)
        stage.worker = lambda name: (reader if name == "store-reader" else writer).worker(name)
        async with stage.life():
            reader.seconds, writer.seconds = reads, writes
            await stage.platform.says("one")
            await trio.sleep(60)
            await stage.platform.says("two")
            await trio.sleep(60)
            assert stage.platform.chat("42").texts == ["You said: one", "You said: two"]
            reader.seconds = writer.seconds = 0
            await trio.sleep(5)
            assert stage.outcomes() == ["answered", "answered"]


@pytest.mark.parametrize("tenths", range(1, 40, 2))
@pytest.mark.parametrize("mode", ["interrupt", "queue", "steer"])
async def test_a_second_message_at_any_moment_of_the_begin_is_answered_and_nothing_is_lost(
    stage: Stage, tenths: int, mode: Busy
) -> None:
    """Each commit and each read of the database takes half a second; the turn itself takes a minute."""
    stage.config = everyone(busy=mode)
    stage.agent.on("one", Script().takes(60).says("First."))
    async with trio.open_nursery() as nursery:
        disk = Disk(nursery, only=("store-reader", "store-writer"), reports_late=True)
        stage.worker = disk.worker
        async with stage.life():
            disk.seconds = 0.5
            stage.platform.post("one")
            await trio.sleep(tenths / 10)
            stage.platform.post("two")
            await trio.sleep(30)
            early = stage.platform.chat("42").last
            await trio.sleep(120)
            disk.seconds = 0
            await trio.sleep(5)
            assert stage.pending() == []
            assert [text for role, text in stage.transcript() if role == "user"] == ["one", "two"]
            if mode == "interrupt":
                assert early in ("You said: two", "You said: one two"), "the first turn is not waited for"
            else:
                assert "answered" in stage.outcomes()
                assert "superseded" not in stage.outcomes()


@pytest.mark.parametrize("tenths", range(1, 40, 2))
@pytest.mark.parametrize("command", ["/stop", "/new", "/undo"])
async def test_a_command_at_any_moment_of_the_begin_ends_it(stage: Stage, tenths: int, command: str) -> None:
    stage.agent.on("one", Script().takes(60).says("First."))
    async with trio.open_nursery() as nursery:
        disk = Disk(nursery, only=("store-reader", "store-writer"), reports_late=True)
        stage.worker = disk.worker
        async with stage.life():
            disk.seconds = 0.5
            stage.platform.post("one")
            await trio.sleep(tenths / 10)
            stage.platform.post(command)
            await trio.sleep(150)
            disk.seconds = 0
            await trio.sleep(5)
            assert "First." not in stage.platform.chat("42").texts
            assert "answered" not in {how for _, how, _ in stage.agent.left}
            assert stage.pending() == []
            assert not stage.gateway or not stage.gateway.work.running
            await stage.says("two")
            assert stage.platform.chat("42").last == "You said: two"
            if command == "/undo":
                assert [text for role, text in stage.transcript() if role == "user"] == ["two"]


async def test_a_message_is_answered_when_its_idle_session_ends_at_that_moment(stage: Stage) -> None:
    """The order within that moment is chance, so the test tries several times."""
    async with stage.life() as gateway:
        await stage.says("hello")
        key = gateway.home.store.key_of(stage.platform.event("").source)
        for number in range(12):
            leaves_at = trio.current_time() + 300
            await trio.sleep_until(leaves_at - 1)
            event = stage.platform.event(f"again {number}")
            await gateway.home.database.write(
                inbox.store, event, session_key=key, own_key="", at=gateway.home.world.time()
            )
            await trio.sleep_until(leaves_at)
            gateway.work.sessions.wake(key)
            await settled()
            assert stage.platform.chat("42").last == f"You said: again {number}"


async def test_a_turn_with_a_slow_end_keeps_the_outcome_of_its_first_stop(stage: Stage) -> None:
    stage.agent.on("work", Script().hangs(resists=5))
    async with stage.life():
        await stage.says("work")
        await trio.sleep(1)
        await stage.says("/stop")
        await stage.says("hello")
        await trio.sleep(10)
        assert stage.outcomes() == ["stopped", "answered"]


async def test_waiting_messages_survive_a_stop_without_grace(stage: Stage) -> None:
    stage.config = everyone(busy="queue")
    stage.agent.on("one", Script().takes(20).says("First."))
    async with stage.life():
        await stage.says("one")
        for said in ("two", "three"):
            await trio.sleep(2)
            await stage.says(said)
    async with stage.life():
        await trio.sleep(60)
        texts = stage.platform.chat("42").texts
        assert texts[-3:] == ["First.", "You said: two", "You said: three"]


async def test_a_message_whose_turn_was_cut_before_its_first_request_stands_once_in_the_transcript(
    stage: Stage,
) -> None:
    stage.agent.before_asking = 10
    async with stage.life():
        await stage.says("one")
        await trio.sleep(5)
    async with stage.life():
        await trio.sleep(60)
        assert stage.outcomes() == ["unstarted", "answered"]
        assert stage.transcript() == [("user", "one"), ("assistant", "You said: one")]
        await stage.says("/undo")
        assert stage.transcript() == []
