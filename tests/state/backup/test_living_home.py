"""A backup of a home in which a gateway works, and the gateway that is started in the restored home."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
import trio

from hermes_trio.config.retention_section import BackupConfig
from hermes_trio.platform.contract import LinkLost
from hermes_trio.state.backup.backup_file import backups_in
from hermes_trio.state.backup.backup_writer import write_backup
from hermes_trio.state.backup.restored_home import restore
from hermes_trio.testing import MemoryPlatform, Script
from tests.stage import Agent, Stage, everyone

pytestmark = pytest.mark.sqlite  # a backup of a home is a copy of its database file


def elsewhere(stage: Stage, home: Path) -> Stage:
    """A stage for the restored home, with the same agent and people who have heard nothing yet."""
    agent = Agent()
    agent.scripts = stage.agent.scripts
    return replace(stage, home=home, agent=agent, platform=MemoryPlatform(traits=stage.platform.traits))


def backed_up(stage: Stage, tmp_path: Path) -> Path:
    return write_backup(stage.home, tmp_path / "backups", {}, stage.world, version="1").path


async def test_what_was_under_way_when_a_living_home_was_backed_up_is_not_done_again(
    stage: Stage, tmp_path: Path
) -> None:
    stage.config = everyone(busy="queue")
    stage.agent.on("work", Script().says("I begin. ").takes(50).says("Done."))
    async with stage.life():
        await stage.says("Hello.", chat="1")
        stage.platform.fails("send", LinkLost("gone"), times=1000, chat="3")
        await stage.says("Never delivered?", chat="3")
        await stage.says("work", chat="2")
        await stage.says("and then?", chat="2")
        file = backed_up(stage, tmp_path)
    restored = restore(file, tmp_path / "new", stage.world)
    assert restored.dropped is not None
    assert (restored.dropped.turns, restored.dropped.messages) == (1, 1)
    assert restored.dropped.deliveries >= 1

    again = elsewhere(stage, restored.home)
    async with again.life():
        await trio.sleep(3 * 3600)
        assert again.agent.began == []
        assert not [one for one in again.platform.history if one.what == "send"]
        await again.says("Hello again.", chat="1", message_id="new")
    assert again.transcript("1") == [
        ("user", "Hello."),
        ("assistant", "You said: Hello."),
        ("user", "Hello again."),
        ("assistant", "You said: Hello again."),
    ]


async def test_a_home_that_was_backed_up_after_its_stop_goes_on_where_it_was(
    stage: Stage, tmp_path: Path
) -> None:
    stage.agent.on("work", Script().takes(50).says("Done."))
    async with stage.life():
        await stage.says("work")
    restored = restore(backed_up(stage, tmp_path), tmp_path / "new", stage.world)
    assert restored.dropped is None
    again = elsewhere(stage, restored.home)
    async with again.life():
        await trio.sleep(100)
        assert again.platform.chat("42").last == "Done."


async def test_the_housekeeping_of_a_gateway_makes_the_backup_that_is_due(stage: Stage) -> None:
    stage.config = msgspec.structs.replace(stage.config, backup=BackupConfig(every_hours=24))
    async with stage.life():
        # The virtual clock does not wait for a process.
        while not backups_in(stage.home / "backups"):  # noqa: ASYNC110
            await trio.sleep(60)
