"""Boots after earlier lives: exactly the cut sessions are marked, and a session that is cut repeatedly is
detected as stuck. Each test really boots, on the same home."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from hermes_trio.base.messages import SessionSource
from hermes_trio.config.schema import AgentConfig, GatewayConfig
from hermes_trio.state.rules import settle
from hermes_trio.state.rules.settle import Settlement
from hermes_trio.state.tables import endings, inbox
from hermes_trio.state.tables.endings import EndingRow
from hermes_trio.state.tables.session_entry import Mark, SessionEntry
from hermes_trio.state.tables.turns import Outcome, TurnRow
from tests.conftest import Calendar, Home, OpenHome
from tests.state.rows import received, state_of


async def boot(home: Home) -> tuple[list[TurnRow], list[SessionEntry]]:
    """Do what a start does; return the turns that were cut, and the stuck sessions."""
    return await home.store.settle_cut_turns(), await home.store.suspend_stuck_loop_sessions()


async def ending(home: Home, reason: str = "restart_timeout") -> None:
    """Store the decided ending of this life."""
    row = EndingRow(home.life, "restart", "SIGUSR1", 0.0, reason, "stopped", home.world.time())
    await home.database.write(endings.record, row)


async def settled(home: Home, turn: TurnRow, outcome: Outcome, reason: str | None = None) -> None:
    assert await home.database.write(
        settle.settle, turn.turn_id, Settlement(outcome, reason), home.world.time()
    )


async def life(home: Home, somebody: SessionSource, how: str) -> None:
    """Run one life that is `killed` in a turn, `cut` or `finished` in the drain, or `idle`."""
    if how == "idle":
        return
    entry = await home.store.get_or_create_session(somebody)
    turn = await home.turn(entry.session_id)
    if how == "killed":
        return
    await ending(home)
    await settled(home, turn, Outcome.CUT if how == "cut" else Outcome.ANSWERED, "restart_timeout")


@pytest.mark.parametrize(
    ("lives", "stuck_after", "stuck_in"),
    [
        (["killed"] * 5, 3, 3),
        (["cut"] * 5, 3, 3),
        (["killed", "idle", "idle", "cut", "idle", "killed"], 3, 6),
        (["killed", "cut", "finished", "killed", "cut"], 3, None),
        (["finished"] * 6, 3, None),
        (["idle"] * 6, 3, None),
        (["killed"], 1, 1),
        (["cut"] * 4, 5, None),
    ],
    ids=["killed", "cut", "idle between", "good between", "finished", "idle", "at once", "patient"],
)
async def test_a_session_cut_in_too_many_lives_in_a_row_is_suspended(
    open_home: OpenHome, somebody: SessionSource, lives: Sequence[str], stuck_after: int, stuck_in: int | None
) -> None:
    """An idle restart neither counts nor resets the count; a turn that finishes in the drain resets it."""
    config = GatewayConfig(agent=AgentConfig(stuck_after=stuck_after))
    found = None
    for number, how in enumerate(lives, start=1):
        async with open_home(config=config) as home:
            await boot(home)
            await life(home, somebody, how)
        async with open_home(config=config) as home:
            _, stuck = await boot(home)
            if stuck:
                found = number
                assert [entry.session_key for entry in stuck] == [home.store.key_of(somebody)]
                assert stuck[0].resume_pending, "the session as it was before"
                entry = await home.entry(stuck[0].session_key)
                assert entry.mark == Mark("suspended", "stuck", home.world.time())
                break
    assert found == stuck_in


async def test_forgiving_cuts_restarts_the_count(open_home: OpenHome, somebody: SessionSource) -> None:
    for forgiven in (True, False):
        for number in range(3):
            async with open_home() as home:
                _, stuck = await boot(home)
                assert stuck == []
                if forgiven and number == 2:
                    await home.store.clear_restart_failure_count(home.store.key_of(somebody))
                    await home.store.clear_restart_failure_count("agent:main:telegram:dm:nobody")
                    continue
                await life(home, somebody, "killed")
    async with open_home() as home:
        _, stuck = await boot(home)
        assert len(stuck) == 1


async def test_cuts_of_a_stuck_session_do_not_count_for_its_replacement(
    open_home: OpenHome, somebody: SessionSource
) -> None:
    for _ in range(3):
        async with open_home() as home:
            await boot(home)
            await life(home, somebody, "killed")
    async with open_home() as home:
        _, stuck = await boot(home)
        assert len(stuck) == 1
        fresh = await home.store.get_or_create_session(somebody)
        assert (fresh.session_id != stuck[0].session_id, fresh.auto_reset_reason) == (True, "suspended")
        await life(home, somebody, "killed")
    async with open_home() as home:
        cut, stuck = await boot(home)
        assert [turn.session_id for turn in cut] == [fresh.session_id]
        assert stuck == []


async def test_only_sessions_with_a_cut_turn_are_marked_for_resuming(
    open_home: OpenHome, somebody: SessionSource
) -> None:
    """The time of the last use does not matter."""
    async with open_home() as home:
        idle = [
            await home.store.get_or_create_session(replace(somebody, chat_id=f"1{number}"))
            for number in range(5)
        ]
        for entry in idle[:3]:
            await settled(home, await home.turn(entry.session_id), Outcome.ANSWERED)
        busy = await home.store.get_or_create_session(somebody)
        await home.turn(busy.session_id)
        await ending(home)
    async with open_home() as home:
        cut, _ = await boot(home)
        assert [turn.session_id for turn in cut] == [busy.session_id]
        assert (await home.entry(busy.session_key)).resume_reason == "restart_timeout"
        assert [(await home.entry(entry.session_key)).mark for entry in idle] == [None] * 5


@pytest.mark.parametrize("outcome", [outcome for outcome in Outcome if outcome is not Outcome.CUT])
async def test_a_turn_with_an_end_is_not_resumed(
    open_home: OpenHome, somebody: SessionSource, outcome: Outcome
) -> None:
    async with open_home() as home:
        entry = await home.store.get_or_create_session(somebody)
        await settled(home, await home.turn(entry.session_id), outcome)
        await ending(home)
    async with open_home() as home:
        assert await boot(home) == ([], [])
        assert (await home.entry(entry.session_key)).mark is None


async def test_a_resume_mark_and_its_messages_survive_any_number_of_boots(
    open_home: OpenHome, somebody: SessionSource, calendar: Calendar
) -> None:
    async with open_home() as home:
        entry = await home.store.get_or_create_session(somebody)
        turn = await home.turn(entry.session_id)
        row = await home.database.write(received, "1", key=entry.session_key)
        await home.database.write(inbox.join_turn, turn.turn_id, [row])
        waiting = await home.database.write(received, "2", key=entry.session_key)
        await ending(home, "shutdown_timeout")
    cut_at = calendar.time
    for _ in range(3):
        async with open_home() as home:
            await boot(home)
            found = await home.entry(entry.session_key)
            assert found.mark == Mark("resume_pending", "shutdown_timeout", cut_at)
            assert found.updated_at == entry.updated_at
            assert await home.database.read(state_of, row) == ("of_turn", turn.turn_id)
            assert [
                message.inbox_id for message in await home.database.read(inbox.pending, entry.session_key)
            ] == [waiting]
        calendar.sleep(minutes=10)


async def test_suspend_recently_active_suspends_the_sessions_in_recent_use(
    open_home: OpenHome, somebody: SessionSource, calendar: Calendar
) -> None:
    async with open_home() as home:
        old = await home.store.get_or_create_session(replace(somebody, chat_id="old"))
        calendar.sleep(seconds=121)
        recent = await home.store.get_or_create_session(replace(somebody, chat_id="recent"))
        ended = await home.store.get_or_create_session(replace(somebody, chat_id="ended"))
        await home.database.write(settle.end_session, ended.session_id, "session_reset", calendar.time)
        busy = await home.store.get_or_create_session(replace(somebody, chat_id="busy"))
        await home.turn(busy.session_id)
        gone = await home.store.get_or_create_session(replace(somebody, chat_id="gone"))
        await home.store.suspend_session(gone.session_key)
        suspended_at = calendar.time
    calendar.sleep(seconds=5)
    async with open_home() as home:
        await boot(home)
        assert await home.store.suspend_recently_active() == 1
        marks = [(await home.entry(entry.session_key)).mark for entry in (old, recent, busy, gone)]
        assert marks == [
            None,
            Mark("suspended", None, calendar.time),
            Mark("resume_pending", "crash", calendar.time),
            Mark("suspended", None, suspended_at),
        ]
        assert await home.store.suspend_recently_active() == 0, "a second call finds nothing to suspend"
        assert await home.store.get_session_entry(ended.session_key) is None
