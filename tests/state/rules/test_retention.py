"""Old rows are deleted in small steps, each of which leaves the database consistent."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace

import pytest

from hermes_trio.base.messages import SessionSource
from hermes_trio.state.db.engine import Db
from hermes_trio.state.db.opening import LARGEST_LOG, connect_reading
from hermes_trio.state.rules.retention import BATCH, Cutoffs, forget_done, forget_sessions
from hermes_trio.state.rules.settle import Settlement, settle
from hermes_trio.state.tables import approvals, endings, meta, sessions, transcript
from hermes_trio.state.tables.approvals import ApprovalRow
from hermes_trio.state.tables.endings import EndingRow
from hermes_trio.state.tables.transcript import TranscriptRow
from hermes_trio.state.tables.turns import Outcome
from tests.conftest import Calendar, Home
from tests.state.rows import received


async def filled(home: Home, source: SessionSource, messages: int) -> str:
    """Add a session with `messages` rows; return its id."""
    entry = await home.store.get_or_create_session(source)
    turn = await home.turn(entry.session_id)
    said = tuple(TranscriptRow("assistant", "word", 0, turn.turn_id, place=n) for n in range(messages - 1))
    await home.database.write(
        settle, turn.turn_id, Settlement(Outcome.ANSWERED, rows=said), home.world.time()
    )
    return entry.session_id


async def test_a_large_session_is_deleted_in_parts_and_cannot_be_used_meanwhile(
    home: Home, somebody: SessionSource, calendar: Calendar
) -> None:
    large = await filled(home, somebody, 2 * BATCH + 1)
    calendar.sleep(days=91)
    before = calendar.time - 90 * 86400
    left = []
    more = True
    while more:
        gone, more = await home.database.write(forget_sessions, used_before=before, at=calendar.time)
        left.append((gone, len(await home.store.load_transcript(large))))
        if len(left) == 1:
            fresh = await home.store.get_or_create_session(somebody)
            assert fresh.session_id != large
            assert not fresh.was_auto_reset
    assert left == [([], BATCH + 1), ([], 1), ([large], 0)]
    assert [e.session_id for e in await home.database.read(lambda db: sessions.newest(db, limit=9))] == [
        fresh.session_id
    ]
    assert await home.database.read(transcript.search, "word") == []


async def test_small_sessions_are_deleted_many_at_a_time(
    home: Home, somebody: SessionSource, calendar: Calendar
) -> None:
    ids = [await filled(home, replace(somebody, chat_id=str(n)), 9) for n in range(60)]
    calendar.sleep(days=91)
    steps = []
    more = True
    while more:
        gone, more = await home.database.write(
            forget_sessions, used_before=calendar.time - 86400, at=calendar.time
        )
        steps.append(gone)
    assert [name for step in steps for name in step] == ids
    assert [len(step) for step in steps] == [49, 11]


async def test_finished_rows_are_deleted_in_batches_and_open_ones_stay(
    home: Home, calendar: Calendar
) -> None:
    def fill(db: Db) -> None:
        for number in range(BATCH + 3):
            received(db, str(number))
        db.execute("UPDATE inbox SET state = 'done', done_at = received_at WHERE inbox_id > 1")

    def count(db: Db) -> int:
        (found,) = db.execute("SELECT count(*) FROM inbox").fetchone()
        return int(found)

    await home.database.write(fill)
    at = calendar.time + 1
    before = Cutoffs(inbox=at, outbox=at, approvals=at, endings=at)
    counts = []
    more = True
    while more:
        more = await home.database.write(forget_done, before)
        counts.append(await home.database.read(count))
    assert counts == [3, 1]


async def test_old_approvals_and_endings_are_deleted_except_open_ones_and_the_last_ending(
    home: Home, somebody: SessionSource, calendar: Calendar
) -> None:
    entry = await home.store.get_or_create_session(somebody)
    turn = await home.turn(entry.session_id)

    def fill(db: Db) -> None:
        for name in ("closed", "open"):
            approvals.ask(db, ApprovalRow(name, turn.turn_id, "approval", "{}", calendar.time))
        approvals.answer(db, "closed", "yes", by="42", at=calendar.time)
        for life in ("one", "two", "three"):
            row = EndingRow(life, "stop", "planned", 0.0, "shutdown_timeout", "stopped", calendar.time)
            endings.record(db, row)
            calendar.sleep(seconds=1)

    await home.database.write(fill)
    at = calendar.time + 1
    assert not await home.database.write(forget_done, Cutoffs(inbox=at, outbox=at, approvals=at, endings=at))
    assert await home.database.read(approvals.get, "closed") is None
    assert await home.database.read(approvals.get, "open") is not None
    lives = [await home.database.read(endings.of_life, life) for life in ("one", "two", "three")]
    assert [row is not None for row in lives] == [False, False, True]


@pytest.mark.sqlite
async def test_a_long_read_leaves_no_large_database_log(home: Home) -> None:
    path = home.database.path
    log = path.with_name(path.name + "-wal")

    def fill(db: Db, times: int, what: str = "x") -> None:
        for number in range(times):
            meta.put(db, f"page {number}", what * 100_000)

    await home.database.write(fill, 1)
    with closing(connect_reading(path)) as reader:
        reader.execute("BEGIN")
        assert meta.get(reader, "page 0") is not None
        for what in "abcde":
            await home.database.write(fill, 50, what)
        assert log.stat().st_size > LARGEST_LOG
    for what in "yz":
        await home.database.write(fill, 1, what)
    assert log.stat().st_size <= LARGEST_LOG
