"""Idle and daily resets: the policy that applies, what prevents a reset, and what is recorded of it."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from hermes_trio.base.messages import SessionSource
from hermes_trio.config.schema import GatewayConfig, SessionReset
from hermes_trio.state.rules import settle
from hermes_trio.state.rules.settle import Settlement
from hermes_trio.state.tables import processes, sessions
from hermes_trio.state.tables.processes import ProcessRow
from hermes_trio.state.tables.turns import Outcome
from tests.conftest import Calendar, OpenHome
from tests.state.rows import cut_with_message

IDLE = GatewayConfig(session_reset=SessionReset(mode="idle", idle_minutes=60))
DAILY = GatewayConfig(session_reset=SessionReset(mode="daily", at_hour=4))
NEVER = GatewayConfig()


@pytest.mark.parametrize(
    ("config", "reset"),
    [
        (IDLE, True),
        (NEVER, False),
        (GatewayConfig(reset_by_platform={"telegram": IDLE.session_reset}), True),
        (GatewayConfig(reset_by_platform={"discord": IDLE.session_reset}), False),
        (GatewayConfig(reset_by_type={"dm": IDLE.session_reset}), True),
        (GatewayConfig(reset_by_type={"group": IDLE.session_reset}), False),
        (
            GatewayConfig(
                session_reset=IDLE.session_reset,
                reset_by_type={"dm": IDLE.session_reset},
                reset_by_platform={"telegram": SessionReset()},
            ),
            False,
        ),
        (DAILY, False),
    ],
    ids=[
        "general",
        "none",
        "platform",
        "other platform",
        "type",
        "other type",
        "platform first",
        "not yet four",
    ],
)
async def test_the_reset_policy_of_the_platform_wins_over_that_of_the_chat_type(
    open_home: OpenHome, somebody: SessionSource, calendar: Calendar, config: GatewayConfig, reset: bool
) -> None:
    async with open_home(config=config) as home:
        before = await home.store.get_or_create_session(somebody)
        calendar.sleep(hours=2)
        after = await home.store.get_or_create_session(somebody)
        assert (after.session_id != before.session_id) is reset


async def test_a_daily_reset_happens_at_its_hour(
    open_home: OpenHome, somebody: SessionSource, calendar: Calendar
) -> None:
    async with open_home(config=DAILY) as home:
        before = await home.store.get_or_create_session(somebody)
        calendar.now = datetime(2026, 5, 21, 3, 59, tzinfo=UTC)
        assert (await home.store.get_or_create_session(somebody)).session_id == before.session_id
        calendar.now = datetime(2026, 5, 21, 4, 1, tzinfo=UTC)
        after = await home.store.get_or_create_session(somebody)
        assert after.auto_reset_reason == "daily"
        calendar.now = datetime(2026, 5, 21, 23, 0, tzinfo=UTC)
        assert (await home.store.get_or_create_session(somebody)).session_id == after.session_id


@pytest.mark.parametrize("active", [False, True])
async def test_a_new_session_records_whether_the_replaced_one_was_used(
    open_home: OpenHome, somebody: SessionSource, calendar: Calendar, active: bool
) -> None:
    async with open_home(config=IDLE) as home:
        before = await home.store.get_or_create_session(somebody)
        if active:
            turn = await home.turn(before.session_id)
            await home.database.write(settle.settle, turn.turn_id, Settlement(Outcome.FAILED), calendar.time)
        calendar.sleep(hours=2)
        after = await home.store.get_or_create_session(somebody)
        assert (after.was_auto_reset, after.reset_had_activity) == (True, active)
        assert after.usage.total_tokens == 0
        assert await home.store.load_transcript(after.session_id) == []
        assert len(await home.store.load_transcript(before.session_id)) == (1 if active else 0), (
            "nothing is lost"
        )


@pytest.mark.parametrize(
    ("changed", "kept"),
    [
        ({}, True),
        ({"started_at": -23 * 3600}, True),
        ({"started_at": -25 * 3600}, False),
        ({"background": False}, False),
        ({"session_id": "another"}, False),
        ({"ended_at": 0.0}, False),
    ],
    ids=["lives", "lives for long", "was forgotten", "in the foreground", "of another session", "has ended"],
)
async def test_a_running_background_process_prevents_a_reset(
    open_home: OpenHome, somebody: SessionSource, calendar: Calendar, changed: dict[str, Any], kept: bool
) -> None:
    async with open_home(config=IDLE) as home:
        before = await home.store.get_or_create_session(somebody)
        if changed.get("session_id") == "another":
            another = await home.store.get_or_create_session(replace(somebody, chat_id="43"))
            changed = {"session_id": another.session_id}
        calendar.sleep(hours=2)
        server = ProcessRow("p1", before.session_id, "life-1", 4711, 1.0, "serve", True, calendar.time)
        if "started_at" in changed:
            changed = {"started_at": calendar.time + changed["started_at"]}
        await home.database.write(processes.add, replace(server, **changed))
        after = await home.store.get_or_create_session(somebody)
        assert (after.session_id == before.session_id) is kept


@pytest.mark.parametrize("ahead", [60, 86400 * 400])
async def test_a_clock_that_was_ahead_causes_no_reset_and_no_deletion(
    open_home: OpenHome, somebody: SessionSource, calendar: Calendar, ahead: int
) -> None:
    both = GatewayConfig(session_reset=SessionReset(mode="both", idle_minutes=1))
    async with open_home(config=both) as home:
        calendar.sleep(seconds=ahead)
        before = await home.store.get_or_create_session(somebody)
        await cut_with_message(home, before.session_id)
        calendar.sleep(seconds=-ahead)
        assert await home.store.prune_old_sessions(1) == []
        after = await home.store.get_or_create_session(somebody)
        assert (after.session_id, after.resume_pending) == (before.session_id, True)
        await home.store.clear_resume_pending(after.session_key)
        await home.database.write(sessions.touch, after.session_id, calendar.time + ahead)
        assert (await home.store.get_or_create_session(somebody)).session_id == before.session_id
        assert await home.store.prune_old_sessions(1) == []
