"""A session is returned whatever is wrong with its journals, and loses nothing stored."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import trio
import trio.testing

from hermes_trio.base.errors import StoreFull
from hermes_trio.base.events import MessageDelta
from hermes_trio.base.messages import SessionSource
from hermes_trio.journal.session_reader import SessionReader
from hermes_trio.journal.writer import append_run_event, open_journals
from hermes_trio.state.db.engine import Db
from hermes_trio.state.tables import turns
from hermes_trio.state.tables.transcript import TranscriptRow
from hermes_trio.state.tables.turns import Recovery
from tests.disk import Disk
from tests.journal.seams import ASKED, append_events, begin_turn, cut_turn, shown_transcript, store_rows
from tests.logs import capture_logs

if TYPE_CHECKING:
    from tests.conftest import Calendar, Home


def in_the_way(file: Path, how: str) -> None:
    """Put something else at the path of the journal."""
    file.parent.mkdir(parents=True)
    if how == "a directory":
        file.mkdir()
    elif how == "a link to itself":
        file.symlink_to(file.name)
    elif how == "a file for its directory":
        file.parent.rmdir()
        file.parent.touch()
    else:
        file.write_bytes(b"secret\n")
        file.chmod(0)


@pytest.mark.parametrize("how", ["a directory", "a link to itself", "a file for its directory", "no right"])
async def test_an_unreadable_journal_is_logged_and_the_session_is_returned(
    home: Home, somebody: SessionSource, root: Path, how: str
) -> None:
    """The failed readings are not counted: as soon as the journal is readable, it is read."""
    if how == "no right" and (os.name != "posix" or os.geteuid() == 0):
        pytest.skip("whoever runs this may read everything")
    turn = await begin_turn(home, somebody)
    await cut_turn(home, turn)
    in_the_way(root / turn.session_id / f"{turn.run_id}.jsonl", how)
    with capture_logs() as logs:
        session = await home.read(turn.session_id)
    assert shown_transcript(session) == [ASKED, "(Response interrupted)"]
    assert [(log["event"], log["run"]) for log in logs] == [("run journal not readable", turn.run_id)]
    assert "cannot be read" in logs[0]["error"]
    for _ in range(20):
        assert (await home.read(turn.session_id)).turns[0].recovery_attempts == 0

    place = root / turn.session_id
    shutil.rmtree(place) if place.is_dir() else place.unlink()
    await append_events(home, turn, MessageDelta("Here."))
    assert shown_transcript(await home.read(turn.session_id)) == [ASKED, "Here.", "(Response interrupted)"]


async def test_an_unreadable_journal_does_not_prevent_healing_from_others(
    home: Home, somebody: SessionSource, root: Path
) -> None:
    older = await begin_turn(home, somebody)
    await cut_turn(home, older)
    newer = await home.turn(older.session_id, "And now?")
    await append_events(home, newer, MessageDelta("Newer."))
    await cut_turn(home, newer)
    (root / older.session_id / f"{older.run_id}.jsonl").mkdir()
    with capture_logs() as logs:
        assert "Newer." in shown_transcript(await home.read(older.session_id))
    assert len(logs) == 1


def store_is_full(db: Db, full: bool) -> None:
    (pages,) = db.execute("PRAGMA page_count").fetchone()
    db.execute(f"PRAGMA max_page_count = {pages if full else 1_000_000}")


@pytest.mark.sqlite
async def test_a_session_is_returned_if_recovered_rows_cannot_be_stored(
    home: Home, somebody: SessionSource
) -> None:
    turn = await begin_turn(home, somebody)
    await append_events(home, turn, MessageDelta("Found. " * 10_000))
    await cut_turn(home, turn)
    await home.database.write(store_is_full, True)
    with pytest.raises(StoreFull):
        await store_rows(home, turn, TranscriptRow("user", "x" * 100_000, 0.0, turn.turn_id))
    with capture_logs() as logs:
        session = await home.read(turn.session_id)
    assert shown_transcript(session) == [ASKED, "(Response interrupted)"]
    assert [log["run"] for log in logs] == [turn.run_id]
    await home.database.write(store_is_full, False)
    assert shown_transcript(await home.read(turn.session_id))[1].startswith("Found. Found.")


async def test_an_unknown_session_is_none(home: Home) -> None:
    assert await home.reader.get_session("nobody") is None


async def test_a_cancelled_reader_leaves_the_healing_to_the_next_one(
    home: Home, somebody: SessionSource, root: Path, disk: Disk, autojump_clock: trio.testing.MockClock
) -> None:
    turn = await begin_turn(home, somebody)
    await append_events(home, turn, MessageDelta("One."))
    await cut_turn(home, turn)
    async with open_journals(root, home.world, worker=disk.worker) as journals:
        reader = SessionReader(home.database, journals, home.world)
        disk.hangs = True
        with trio.move_on_after(3) as scope:
            await reader.get_session(turn.session_id)
        assert scope.cancelled_caught
        disk.recovers()
        session = await reader.get_session(turn.session_id)
    assert session is not None
    assert shown_transcript(session) == [ASKED, "One.", "(Response interrupted)"]


async def test_a_late_terminal_event_of_a_given_up_run_changes_nothing(
    home: Home, somebody: SessionSource, calendar: Calendar
) -> None:
    turn = await begin_turn(home, somebody)
    await cut_turn(home, turn)
    calendar.sleep(days=2)
    before = (await home.read(turn.session_id)).messages
    await append_run_event(home.journals, turn.session_id, turn.run_id, "message.delta", {"delta": "Late."})
    after = await home.read(turn.session_id)
    assert after.messages == before
    assert after.turns[0].recovery is Recovery.GIVEN_UP
    assert await home.database.read(turns.unended) == []
