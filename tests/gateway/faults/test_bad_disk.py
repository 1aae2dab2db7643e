"""Stops, starts and releases on a disk that fails: only the refused data is missing."""

from __future__ import annotations

import shutil

import pytest
import trio

from hermes_trio.host.home.markers import RESTART_NOTIFY, RESTART_PENDING
from hermes_trio.host.home.state_file import read_status
from hermes_trio.testing import Script
from tests.disk import full_disk
from tests.stage import Stage


async def test_a_restart_whose_marker_cannot_be_written_remains_a_restart(stage: Stage) -> None:
    async with stage.life() as gateway:
        await stage.says("hello")
        (stage.home / RESTART_PENDING).mkdir()  # instead of a disk that takes no file
        gateway.stop(restart=True, grace=0)
    status = read_status(stage.home)
    assert status is not None
    assert (status.gateway_state, status.restart_requested) == ("stopped", True)


async def test_a_restart_from_a_chat_happens_on_a_full_disk(stage: Stage) -> None:
    async with stage.life() as gateway:
        await stage.says("hello")
        (stage.home / RESTART_NOTIFY).mkdir()
        await stage.says("/restart")
        await trio.sleep(20)
        assert gateway.control.current is not None
        assert gateway.control.current.kind == "restart"


async def test_a_hold_released_on_a_full_disk_ends_when_there_is_room(
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
        async with full_disk(gateway.home.database):
            gateway.control.hold(False)
            await trio.sleep(20)
        await trio.sleep(60)
        assert stage.platform.chat("42").texts[-1] == "All done."


@pytest.mark.sqlite
async def test_a_start_succeeds_with_an_unreadable_journal(stage: Stage) -> None:
    stage.agent.on("hang", Script().says("I begin.").hangs())
    left = stage.home.with_name("left")
    async with stage.life():
        await stage.says("hang")
        await trio.sleep(5)
        shutil.copytree(stage.home, left)  # the files after a kill: the turn has no end
        stage.platform.drop()
    [journal] = (left / "journal").rglob("*.jsonl")
    journal.unlink()
    journal.mkdir()  # instead of a file that the disk cannot read
    stage.home = left
    stage.agent.on("hang", Script().says("All done."))
    async with stage.life():
        await trio.sleep(5)
        assert stage.platform.chat("42").texts[-1] == "All done."


async def test_a_resume_on_a_full_disk_happens_when_there_is_room(
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
        async with full_disk(gateway.home.database):
            await trio.sleep(20)
        await trio.sleep(60)
        assert stage.platform.chat("42").texts[-1] == "All done."
    assert [said for said, _ in stage.agent.began] == ["hang", "hang"]
