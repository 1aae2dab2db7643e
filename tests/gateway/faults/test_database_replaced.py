"""Files of the open database are removed or replaced: no message is accepted that the next start would not
find, and no accepted message is lost."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
import trio

from hermes_trio.gateway.ending.endings_table import Cause, Exit, Supervisor, consequences
from hermes_trio.host.home.state_file import is_wanted, read_status
from hermes_trio.testing import Script
from tests.stage import Stage

pytestmark = pytest.mark.sqlite

LOGS = "gateway.db-wal", "gateway.db-shm"


def messages_in(path: Path) -> list[str]:
    """Return the messages in a database, read by a connection of another program."""
    with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as db:
        assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        return [text for (text,) in db.execute("SELECT event ->> 'text' FROM inbox ORDER BY inbox_id")]


def remove_database(home: Path) -> None:
    (home / "gateway.db").unlink()


def remove_database_and_log(home: Path) -> None:
    for name in ("gateway.db", *LOGS):
        (home / name).unlink()


def remove_log(home: Path) -> None:
    (home / LOGS[0]).unlink()


def remove_both_logs(home: Path) -> None:
    for name in LOGS:
        (home / name).unlink()


def replace_log(home: Path) -> None:
    shutil.copy(home / LOGS[0], home / "other")
    (home / "other").rename(home / LOGS[0])


def rename_home(home: Path) -> None:
    home.rename(home.with_name("renamed"))


def remove_home(home: Path) -> None:
    shutil.rmtree(home)


DAMAGES = (
    remove_database,
    remove_database_and_log,
    remove_log,
    remove_both_logs,
    replace_log,
    rename_home,
    remove_home,
)


@pytest.mark.parametrize("damage", DAMAGES)
async def test_a_removed_database_is_saved_and_the_next_life_has_all_of_it(
    stage: Stage, damage: object
) -> None:
    assert callable(damage)
    async with stage.life() as gateway:
        for number in range(3):
            await stage.says(f"before {number}")
        await trio.sleep(1)
        damage(stage.home)
        stage.platform.post("after")
        await trio.sleep(1)
        assert stage.platform.chat("42").texts[-1] == "You said: before 2", "the message is not accepted"
        assert not gateway.control.takes_turns
        ending = gateway.control.current
        assert ending is not None
        assert ending.cause is Cause.STORE_REPLACED
        assert consequences(ending, Supervisor.NONE).exit is Exit.FAILURE
        await trio.sleep(5)
        assert stage.ended_at is not None
    status = read_status(stage.home)
    if damage is not rename_home:
        assert status is not None
        assert (is_wanted(status), status.exit_reason) == (True, "database replaced")
    async with stage.life():
        await trio.sleep(60)
        assert stage.platform.chat("42").texts[-1] == "You said: after"
        assert [turn.outcome for turn in stage.turns()] == ["answered"] * 4
    assert messages_in(stage.home / "gateway.db") == ["before 0", "before 1", "before 2", "after"]
    assert not list(stage.home.glob("*.part"))


@pytest.mark.parametrize("with_logs", [False, True])
async def test_a_replaced_database_stays_untouched_with_a_copy_of_ours_beside_it(
    stage: Stage, *, with_logs: bool
) -> None:
    old = stage.home.with_name("old")
    async with stage.life():
        await stage.says("old")
        await trio.sleep(1)
        shutil.copytree(stage.home, old)
        await stage.says("before")
        await trio.sleep(1)
        for name in ("gateway.db", *(LOGS if with_logs else ())):
            (old / name).replace(stage.home / name)
        stage.platform.post("after")
        await trio.sleep(5)
        assert stage.ended_at is not None
    [saved] = stage.home.glob("gateway.db.saved-*")
    assert messages_in(saved) == ["old", "before", "after"]
    if with_logs:
        assert messages_in(stage.home / "gateway.db") == ["old"]
    else:
        assert not any((stage.home / name).exists() for name in LOGS), (
            "a log of our database would be mixed into the new one"
        )
    async with stage.life():
        await trio.sleep(60)
        assert stage.platform.chat("42").texts.count("You said: after") == 1
    assert messages_in(saved) == ["old", "before", "after"]


async def test_a_turn_on_a_removed_database_is_told_of_the_ending_and_resumed(stage: Stage) -> None:
    stage.agent.on("work", Script().says("I begin.").hangs())
    async with stage.life():
        await stage.says("work")
        await trio.sleep(1)
        remove_database_and_log(stage.home)
        await stage.platform.until(lambda: True)
        stage.platform.post("hello", chat="43")
        await trio.sleep(10)
        assert stage.ended_at is not None
    assert any("shutting down" in text for text in stage.platform.chat("42").texts)
    stage.agent.on("work", Script().says("All done."))
    async with stage.life():
        await trio.sleep(60)
        assert stage.platform.chat("42").texts[-1] == "All done."
        assert stage.platform.chat("43").texts == ["You said: hello"]


async def test_a_gateway_stays_and_refuses_while_its_database_cannot_be_saved(stage: Stage) -> None:
    """The open file is the only copy, and it would be lost with the process."""
    async with stage.life() as gateway:
        await stage.says("before")
        await trio.sleep(1)
        (stage.home / "gateway.db.saved.part").mkdir()  # instead of a full disk
        remove_database_and_log(stage.home)
        stage.platform.post("after")
        await trio.sleep(600)
        assert gateway.control.current is None
        assert not gateway.control.takes_turns
        assert stage.platform.chat("42").texts == ["You said: before"]
        (stage.home / "gateway.db.saved.part").rmdir()
        await trio.sleep(60)
        assert stage.ended_at is not None
    async with stage.life():
        await trio.sleep(600)
        assert stage.platform.chat("42").texts == ["You said: before", "You said: after"]


async def test_a_stop_of_an_idle_gateway_saves_a_removed_database(stage: Stage) -> None:
    async with stage.life() as gateway:
        await stage.says("before")
        await trio.sleep(1)
        remove_database_and_log(stage.home)
        gateway.stop()
    assert messages_in(stage.home / "gateway.db") == ["before"]
