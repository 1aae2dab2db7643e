"""The session of the next message: the rules in their order."""

from __future__ import annotations

from dataclasses import replace

import pytest
import trio

from hermes_trio.base.messages import SessionSource
from hermes_trio.config.schema import AgentConfig, GatewayConfig, SessionReset
from hermes_trio.host.loop.worker import worker_thread
from hermes_trio.state.db.engine import Db
from hermes_trio.state.rules import settle
from hermes_trio.state.rules.settle import Settlement
from hermes_trio.state.tables import sessions, transcript, turns
from hermes_trio.state.tables.session_entry import Mark
from hermes_trio.state.tables.transcript import TranscriptRow
from hermes_trio.state.tables.turns import Outcome
from tests.conftest import Calendar, Home, OpenHome
from tests.state.rows import cut_with_message, state_of

IDLE = GatewayConfig(session_reset=SessionReset(mode="idle", idle_minutes=60))
NEVER = GatewayConfig()


def last_used(db: Db, session_id: str, at: float) -> None:
    """Set the time of the last use of a session."""
    db.execute("UPDATE sessions SET updated_at = ? WHERE session_id = ?", (at, session_id))


async def test_a_clock_set_back_makes_no_session_old(
    home: Home, somebody: SessionSource, calendar: Calendar
) -> None:
    first = await home.store.get_or_create_session(somebody)
    await home.database.write(sessions.touch, first.session_id, 0.0)
    assert await home.store.get_session_entry(first.session_key) == first


async def test_a_chat_keeps_its_session_without_a_reset(
    home: Home, somebody: SessionSource, calendar: Calendar
) -> None:
    first = await home.store.get_or_create_session(somebody)
    assert first.session_id == "20260520_120000_00000001"
    assert (first.origin, first.display_name, first.platform, first.chat_type) == (
        somebody,
        "Kim",
        "telegram",
        "dm",
    )
    assert (first.created_at, first.updated_at, first.was_auto_reset) == (calendar.time, calendar.time, False)
    calendar.sleep(days=400)
    again = await home.store.get_or_create_session(replace(somebody, user_name="Kim, renamed"))
    assert again == replace(first, updated_at=calendar.time)
    assert await home.store.get_session_entry(first.session_key) == again
    other = await home.store.get_or_create_session(replace(somebody, chat_id="43"))
    assert other.session_id != first.session_id


# The result for a session that was last used an hour and a minute ago. The mark is
# fresh for an hour. A suspended session is always replaced; a fresh mark keeps the session before any
# policy is applied; a stale mark is cleared, and is itself no reason for a new session.
TABLE = [
    # mark      age     policy due  replaced as      mark after
    (None, 0, "idle", "idle", None),
    (None, 0, "none", None, None),
    ("cut", 0, "none", None, "resume_pending"),
    ("cut", 0, "idle", None, "resume_pending"),
    ("cut", 3600, "idle", None, "resume_pending"),
    ("cut", 3601, "none", None, None),
    ("cut", 3601, "idle", "idle", None),
    ("suspended", 0, "none", "suspended", None),
    ("suspended", 0, "idle", "suspended", None),
    ("suspended", 99999, "none", "suspended", None),
]


@pytest.mark.parametrize(("mark", "marked_ago", "clock", "renewed", "mark_after"), TABLE)
async def test_the_next_message_finds_the_session_that_the_rules_give(
    open_home: OpenHome,
    somebody: SessionSource,
    calendar: Calendar,
    mark: str | None,
    marked_ago: int,
    clock: str,
    renewed: str | None,
    mark_after: str | None,
) -> None:
    async with open_home(config=IDLE if clock == "idle" else NEVER) as home:
        calendar.sleep(seconds=-marked_ago)
        before = await home.store.get_or_create_session(somebody)
        row = await cut_with_message(home, before.session_id) if mark == "cut" else None
        if mark == "suspended":
            await home.store.suspend_session(before.session_key)
        calendar.sleep(seconds=marked_ago)
        await home.database.write(last_used, before.session_id, calendar.time - 3660)

        after = await home.store.get_or_create_session(somebody)
        assert (after.session_id != before.session_id) is (renewed is not None)
        assert after.auto_reset_reason == renewed
        assert (after.mark.kind if after.mark else None) == mark_after
        assert after.updated_at == calendar.time
        if row is not None:
            held = (await home.database.read(state_of, row))[0]
            assert held == ("of_turn" if mark_after else "done"), "closed together with the mark"
        old = await home.database.read(sessions.by_id, before.session_id)
        assert old is not None
        assert old.end_reason == renewed


async def test_a_session_with_a_running_turn_is_not_reset(
    open_home: OpenHome, somebody: SessionSource, calendar: Calendar
) -> None:
    """A session whose turn runs for hours is not idle: a new message belongs to the same conversation."""
    async with open_home(config=IDLE) as home:
        before = await home.store.get_or_create_session(somebody)
        turn = await home.turn(before.session_id)
        calendar.sleep(hours=3)
        during = await home.store.get_or_create_session(somebody)
        assert during.session_id == before.session_id
        calendar.sleep(hours=3)
        await home.database.write(settle.settle, turn.turn_id, Settlement(Outcome.ANSWERED), calendar.time)
        calendar.sleep(hours=3)
        after = await home.store.get_or_create_session(somebody)
        assert (after.session_id != before.session_id, after.auto_reset_reason) == (True, "idle")


@pytest.mark.parametrize(("window", "resumes"), [(3600, False), (0, True), (-1, True), (10_000_000, True)])
async def test_a_resume_mark_is_fresh_for_ever_without_a_window(
    open_home: OpenHome, somebody: SessionSource, calendar: Calendar, window: int, resumes: bool
) -> None:
    config = GatewayConfig(agent=AgentConfig(gateway_auto_continue_freshness=window))
    async with open_home(config=config) as home:
        before = await home.store.get_or_create_session(somebody)
        await cut_with_message(home, before.session_id)
        calendar.sleep(days=42)
        after = await home.store.get_or_create_session(somebody)
        assert (after.session_id, after.resume_pending) == (before.session_id, resumes)


async def test_a_mark_without_a_time_is_as_old_as_the_last_use(
    home: Home, somebody: SessionSource, calendar: Calendar
) -> None:
    before = await home.store.get_or_create_session(somebody)
    for used_ago, fresh in ((3600, True), (3601, False)):
        await home.database.write(sessions.set_mark, before.session_id, Mark("resume_pending", "crash", None))
        await home.database.write(last_used, before.session_id, calendar.time - used_ago)
        assert (await home.store.get_or_create_session(somebody)).resume_pending is fresh


async def test_concurrent_messages_get_the_same_session(open_home: OpenHome, somebody: SessionSource) -> None:
    async with open_home(worker=worker_thread) as home:
        for suspended in (False, True):
            got: set[str] = set()

            async def message(got: set[str] = got) -> None:
                got.add((await home.store.get_or_create_session(somebody)).session_id)

            if suspended:
                await home.store.suspend_session(home.store.key_of(somebody))
            async with trio.open_nursery() as nursery:
                for _ in range(30):
                    nursery.start_soon(message)
            assert len(got) == 1
        assert len(await home.database.read(lambda db: sessions.newest(db, limit=99))) == 2


@pytest.mark.parametrize("per_user", [True, False])
@pytest.mark.parametrize("where", ["group", "thread"])
async def test_people_of_a_group_share_a_session_or_not_as_configured(
    open_home: OpenHome, per_user: bool, where: str
) -> None:
    config = GatewayConfig(group_sessions_per_user=per_user, thread_sessions_per_user=per_user)
    thread = "7" if where == "thread" else None
    kim, robin = (
        SessionSource("telegram", "-100", "group", user_id=person, thread_id=thread)
        for person in ("42", "43")
    )
    async with open_home(config=config) as home:
        of_kim = await home.store.get_or_create_session(kim)
        of_robin = await home.store.get_or_create_session(robin)
        assert (of_kim.session_id != of_robin.session_id) is per_user
        assert home.store.key_of(kim) == of_kim.session_key
        assert (await home.store.get_or_create_session(kim)).session_id == of_kim.session_id


async def test_reading_a_session_entry_is_no_use_of_the_session(
    home: Home, somebody: SessionSource, calendar: Calendar
) -> None:
    entry = await home.store.get_or_create_session(somebody)
    calendar.sleep(hours=1)
    assert await home.store.get_session_entry(entry.session_key) == entry
    assert await home.store.get_session_entry("agent:main:telegram:dm:nobody") is None


async def test_load_transcript_returns_the_rows_in_order(home: Home, somebody: SessionSource) -> None:
    entry = await home.store.get_or_create_session(somebody)
    turn = await home.turn(entry.session_id, "Hello.")
    answer = TranscriptRow(
        "assistant", "Hello, Kim.", home.world.time(), turn.turn_id, place=2, finish="stop"
    )
    await home.database.write(transcript.append, entry.session_id, answer)
    at = home.world.time()
    await home.database.write(lambda db: turns.ask_end(db, turn.turn_id, Outcome.CUT, at)())
    rows = await home.store.load_transcript(entry.session_id)
    assert [(row.role, row.content, row.run_id) for row in rows] == [
        ("user", "Hello.", turn.run_id),
        ("assistant", "Hello, Kim.", turn.run_id),
    ]
    assert await home.store.load_transcript("nothing") == []
