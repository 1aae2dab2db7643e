"""What a stop, a start and a return make of a disk that fails: what the disk refuses is missing, and nothing
else is."""

from __future__ import annotations

import shutil

import trio

from hermes_trio.host.home.markers import RESTART_NOTIFY, RESTART_PENDING
from hermes_trio.host.home.state_file import read_status
from hermes_trio.testing import Script
from tests.gateway.faults.test_full_disk import taking_no_writes
from tests.stage import Stage


async def test_a_restart_whose_marker_cannot_be_written_is_a_restart_all_the_same(stage: Stage) -> None:
    async with stage.life() as gateway:
        await stage.says("hello")
        (stage.home / RESTART_PENDING).mkdir()  # stands for a disk that takes no file
        gateway.stop(restart=True, grace=0)
    status = read_status(stage.home)
    assert status is not None
    assert (status.gateway_state, status.restart_requested) == ("stopped", True)


async def test_a_restart_that_is_asked_in_a_chat_happens_on_a_full_disk(stage: Stage) -> None:
    async with stage.life() as gateway:
        await stage.says("hello")
        (stage.home / RESTART_NOTIFY).mkdir()
        await stage.says("/restart")
        await trio.sleep(20)
        assert gateway.control.current is not None
        assert gateway.control.current.kind == "restart"


async def test_a_hold_that_ends_while_the_disk_takes_nothing_ends_when_it_takes_something(
    stage: Stage,
) -> None:
    stage.agent.on("hang", Script().says("I begin.").hangs())
    async with stage.life():
        await stage.says("hang")
        await trio.sleep(5)
    stage.agent.on("hang", Script().says("All done."))
    stage.platform.hangs("connect", 10)
    async with stage.life() as gateway:
        gateway.control.hold(True)
        await trio.sleep(20)
        async with taking_no_writes(gateway):
            gateway.control.hold(False)
            await trio.sleep(20)
        await trio.sleep(60)
        assert stage.platform.chat("42").texts[-1] == "All done."


async def test_one_journal_that_cannot_be_read_keeps_nobody_from_starting(stage: Stage) -> None:
    stage.agent.on("hang", Script().says("I begin.").hangs())
    left = stage.home.with_name("left")
    async with stage.life():
        await stage.says("hang")
        await trio.sleep(5)
        shutil.copytree(stage.home, left)  # as a kill leaves it: the turn has no end
        stage.platform.drop()
    [journal] = (left / "journal").rglob("*.jsonl")
    journal.unlink()
    journal.mkdir()  # stands for one that the disk does not give back
    stage.home = left
    stage.agent.on("hang", Script().says("All done."))
    async with stage.life():
        await trio.sleep(5)
        assert stage.platform.chat("42").texts[-1] == "All done."


async def test_a_cut_turn_whose_taking_up_the_disk_refuses_is_taken_up_when_it_takes_writes_again(
    stage: Stage,
) -> None:
    stage.agent.on("hang", Script().says("I begin.").hangs())
    async with stage.life():
        await stage.says("hang")
        await trio.sleep(5)
    stage.agent.on("hang", Script().says("All done."))
    stage.platform.hangs("connect", 10)
    async with stage.life() as gateway:
        await trio.sleep(5)
        async with taking_no_writes(gateway):
            await trio.sleep(20)
        await trio.sleep(60)
        assert stage.platform.chat("42").texts[-1] == "All done."
    assert [said for said, _ in stage.agent.began] == ["hang", "hang"]
