"""Unused sessions are deleted with all their rows; sessions with pending work are kept."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hermes_trio.base.messages import SessionSource
from hermes_trio.state.rules import settle
from hermes_trio.state.rules.settle import Settlement
from hermes_trio.state.tables import inbox, processes, sessions, transcript
from hermes_trio.state.tables.processes import ProcessRow
from hermes_trio.state.tables.turns import Outcome
from tests.conftest import Calendar, Home
from tests.state.rows import received, state_of

SERVER = ProcessRow("p1", "", "life-1", 4711, 1.0, "serve", True, 0.0, "spool/p1")


async def used(home: Home, somebody: SessionSource, name: str) -> str:
    """Add a session with an answered turn; return its id."""
    entry = await home.store.get_or_create_session(replace(somebody, chat_id=name))
    turn = await home.turn(entry.session_id, f"words of {name}")
    await home.database.write(settle.settle, turn.turn_id, Settlement(Outcome.ANSWERED), home.world.time())
    return entry.session_id


async def left(home: Home) -> set[str]:
    return {entry.session_id for entry in await home.database.read(lambda db: sessions.newest(db, limit=99))}


async def test_an_unused_session_is_deleted_with_all_its_rows(
    home: Home, somebody: SessionSource, calendar: Calendar
) -> None:
    old = await used(home, somebody, "old")
    row = await home.database.write(received, "1", key="agent:main:telegram:dm:old")
    turn = await home.turn(old)
    await home.database.write(inbox.join_turn, turn.turn_id, [row])
    await home.database.write(settle.settle, turn.turn_id, Settlement(Outcome.ANSWERED), calendar.time)
    calendar.sleep(days=45)
    recent = await used(home, somebody, "recent")
    calendar.sleep(days=46)
    assert await home.store.prune_old_sessions(90) == [old]
    assert await left(home) == {recent}
    assert await home.store.load_transcript(old) == []
    assert await home.database.read(transcript.search, "old") == []
    assert await home.database.read(state_of, row) == ("done", None)
    assert await home.store.prune_old_sessions(90) == []
    again = await home.store.get_or_create_session(replace(somebody, chat_id="old"))
    assert (again.session_id != old, again.was_auto_reset) == (True, False)


async def test_a_session_is_deleted_just_after_its_maximum_age(
    home: Home, somebody: SessionSource, calendar: Calendar
) -> None:
    name = await used(home, somebody, "one")
    calendar.sleep(days=90)
    assert await home.store.prune_old_sessions(90) == []
    calendar.sleep(seconds=1)
    assert await home.store.prune_old_sessions(90) == [name]


@pytest.mark.parametrize("never", [0, -1, -0.5])
async def test_a_maximum_age_of_zero_or_less_deletes_nothing(
    home: Home, somebody: SessionSource, calendar: Calendar, never: float
) -> None:
    await used(home, somebody, "old")
    calendar.sleep(days=4000)
    assert list(await home.store.prune_old_sessions(never)) == []
    assert len(await left(home)) == 1


async def test_sessions_with_pending_work_are_kept(
    home: Home, somebody: SessionSource, calendar: Calendar
) -> None:
    names = ("plain", "suspended", "marked", "running", "serving", "pending", "shown", "ended")
    ids = {name: await used(home, somebody, name) for name in names}

    def key(name: str) -> str:
        return home.store.key_of(replace(somebody, chat_id=name))

    await home.store.suspend_session(key("suspended"))
    await home.store.mark_resume_pending(key("marked"))
    await home.turn(ids["running"])
    await home.database.write(processes.add, replace(SERVER, session_id=ids["serving"]))
    await home.database.write(received, "1", key=key("pending"))
    await home.database.write(settle.end_session, ids["ended"], "session_reset", calendar.time)
    calendar.sleep(days=91)
    pruned = await home.store.prune_old_sessions(90, keep={ids["shown"]})
    assert set(pruned) == {ids["plain"], ids["ended"]}
    assert await left(home) == {ids[name] for name in names} - set(pruned)


async def test_a_session_with_process_rows_is_kept_until_they_are_deleted(
    home: Home, somebody: SessionSource, calendar: Calendar
) -> None:
    """Only the process row names the file of the output."""
    name = await used(home, somebody, "served")
    await home.database.write(processes.add, replace(SERVER, session_id=name))
    await home.database.write(processes.end, "p1", 0, calendar.time)
    calendar.sleep(days=91)
    assert await home.store.prune_old_sessions(90) == []
    assert await home.database.write(lambda db: processes.prune(db, ended_before=calendar.time)) == [
        "spool/p1"
    ]
    assert await home.store.prune_old_sessions(90) == [name]
