"""The rules of time: when a conversation is reset, also when clocks jump."""

import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Literal
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_trio.config.schema import SessionReset
from hermes_trio.state.rules.reset_policy import (
    DueReset,
    ResetReason,
    is_fresh,
    notice_due,
    process_blocks_reset,
    reset_due,
)

BERLIN = ZoneInfo("Europe/Berlin")
NOON = datetime(2026, 11, 18, 12, tzinfo=UTC).timestamp()
IDLE = SessionReset(mode="idle", idle_minutes=60)
DAILY = SessionReset(mode="daily", at_hour=4)


def berlin(wall: str, *, again: bool = False) -> datetime:
    """Return a local time in Berlin; with `again` the second one of a time that occurs twice."""
    return datetime.fromisoformat(wall).replace(tzinfo=BERLIN, fold=int(again))


@pytest.mark.parametrize(
    ("unused_for", "due"),
    [
        (timedelta(minutes=59), None),
        (timedelta(minutes=60), None),
        (timedelta(minutes=60, seconds=1), "idle"),
        (timedelta(days=400), "idle"),
        (timedelta(minutes=-5), None),
        (timedelta(days=-400), None),
    ],
)
def test_an_idle_reset_is_due_after_more_than_the_limit(unused_for: timedelta, due: DueReset | None) -> None:
    now = datetime(2026, 11, 18, 12, tzinfo=UTC)
    assert reset_due(IDLE, updated_at=(now - unused_for).timestamp(), now=now, zone=UTC) == due


@pytest.mark.parametrize(
    ("updated", "now", "due"),
    [
        ("2026-11-17 23:00", "2026-11-18 03:59", None),
        ("2026-11-17 23:00", "2026-11-18 04:00", "daily"),
        ("2026-11-18 03:59", "2026-11-18 04:01", "daily"),
        ("2026-11-18 04:00", "2026-11-18 23:59", None),
        ("2026-11-18 04:01", "2026-11-19 03:59", None),
        ("2026-11-18 04:01", "2026-11-19 04:01", "daily"),
        ("2026-01-01 00:00", "2026-11-18 12:00", "daily"),
        ("2026-11-18 12:00", "2026-11-18 05:00", None),
        ("2026-12-31 23:00", "2027-01-01 00:30", None),
    ],
)
def test_a_daily_reset_is_due_after_the_hour_since_the_last_message(
    updated: str, now: str, due: DueReset | None
) -> None:
    last_used = berlin(updated).timestamp()
    assert reset_due(DAILY, updated_at=last_used, now=berlin(now), zone=BERLIN) == due


@pytest.mark.parametrize("told_in", [UTC, ZoneInfo("Asia/Tokyo"), ZoneInfo("America/Havana")])
@pytest.mark.parametrize("name", ["Europe/Berlin", "Asia/Tokyo", "America/Havana"])
@pytest.mark.parametrize(("minute", "due"), [(45, None), (75, "daily")])
def test_the_daily_hour_is_in_the_configured_zone_whatever_the_zone_of_now(
    told_in: tzinfo, name: str, minute: int, due: DueReset | None
) -> None:
    zone = ZoneInfo(name)
    three = datetime(2026, 11, 18, 3, tzinfo=zone)
    last_used = (three + timedelta(minutes=30)).timestamp()
    now = (three + timedelta(minutes=minute)).astimezone(told_in)
    assert reset_due(DAILY, updated_at=last_used, now=now, zone=zone) == due


# On 29 March 2026 the clock goes from 2:00 to 3:00, on 25 October from 3:00 back to 2:00.
@pytest.mark.parametrize(
    ("at_hour", "updated", "now", "due"),
    [
        (4, berlin("2026-03-29 03:30"), berlin("2026-03-29 03:59"), None),
        (4, berlin("2026-03-29 03:59"), berlin("2026-03-29 04:00"), "daily"),
        (4, berlin("2026-03-28 04:00"), berlin("2026-03-29 03:59"), None),
        (2, berlin("2026-03-29 01:50"), berlin("2026-03-29 01:59"), None),
        (2, berlin("2026-03-29 01:59"), berlin("2026-03-29 03:00"), "daily"),
        (2, berlin("2026-03-29 03:00"), berlin("2026-03-30 01:59"), None),
        (2, berlin("2026-10-25 01:59"), berlin("2026-10-25 02:00"), "daily"),
        (2, berlin("2026-10-25 02:10"), berlin("2026-10-25 02:05", again=True), None),
        (2, berlin("2026-10-25 02:05", again=True), berlin("2026-10-26 01:59"), None),
        (3, berlin("2026-10-25 02:59"), berlin("2026-10-25 02:59", again=True), None),
        (3, berlin("2026-10-25 02:59", again=True), berlin("2026-10-25 03:00"), "daily"),
        (4, berlin("2026-10-24 04:00"), berlin("2026-10-25 03:59"), None),
    ],
)
def test_a_daylight_saving_change_neither_skips_nor_repeats_the_daily_reset(
    at_hour: int, updated: datetime, now: datetime, due: DueReset | None
) -> None:
    policy = SessionReset(mode="daily", at_hour=at_hour)
    assert reset_due(policy, updated_at=updated.timestamp(), now=now, zone=BERLIN) == due


def test_a_skipped_calendar_day_has_no_daily_reset() -> None:
    samoa = ZoneInfo("Pacific/Apia")  # went from 29 December 2011 to the 31st
    now = datetime(2011, 12, 31, 3, tzinfo=samoa)
    for used, due in (
        (datetime(2011, 12, 29, 3, 59, tzinfo=samoa), "daily"),
        (datetime(2011, 12, 29, 4, tzinfo=samoa), None),
    ):
        assert reset_due(DAILY, updated_at=used.timestamp(), now=now, zone=samoa) == due


ZONES = ["UTC", "Europe/Berlin", "America/Havana", "Australia/Lord_Howe", "Asia/Tokyo"]
moments = st.integers(1_577_836_800, 1_893_456_000)  # from 2020 to 2030


@given(moments, st.integers(-3600, 2 * 86400), st.sampled_from(ZONES), st.integers(0, 23))
def test_a_daily_reset_is_due_if_another_day_has_begun_at_that_hour(
    updated: int, passed: int, name: str, at_hour: int
) -> None:
    zone, now = ZoneInfo(name), updated + passed

    def day(moment: int) -> object:
        wall = datetime.fromtimestamp(moment, zone).replace(tzinfo=None)
        return (wall - timedelta(hours=at_hour)).date()

    due = "daily" if updated < now and day(updated) != day(now) else None
    policy = SessionReset(mode="daily", at_hour=at_hour)
    at = datetime.fromtimestamp(now, UTC)
    assert reset_due(policy, updated_at=updated, now=at, zone=zone) == due


@pytest.mark.skipif(not hasattr(time, "tzset"), reason="the zone of a process is fixed here")
@pytest.mark.parametrize(
    ("now", "due"),
    [
        ("2026-03-29 03:59", None),
        ("2026-03-29 04:00", "daily"),
        ("2026-10-25 03:59", "daily"),
    ],
)
def test_a_zone_of_none_is_the_local_zone(
    monkeypatch: pytest.MonkeyPatch, now: str, due: DueReset | None
) -> None:
    last_used = berlin("2026-03-29 01:30").timestamp()
    with monkeypatch.context() as machine:
        machine.setenv("TZ", "Europe/Berlin")
        time.tzset()
        found = reset_due(DAILY, updated_at=last_used, now=berlin(now).astimezone(UTC), zone=None)
    time.tzset()
    assert found == due


@dataclass(frozen=True)
class Unused:
    """A session last used `before` now, which is noon; the daily hour is 4."""

    before: timedelta


@pytest.mark.parametrize(
    ("mode", "unused", "due"),
    [
        ("none", Unused(timedelta(days=30)), None),
        ("idle", Unused(timedelta(hours=9)), None),
        ("idle", Unused(timedelta(hours=25)), "idle"),
        ("daily", Unused(timedelta(hours=7)), None),
        ("daily", Unused(timedelta(hours=9)), "daily"),
        ("both", Unused(timedelta(hours=7)), None),
        ("both", Unused(timedelta(hours=9)), "daily"),
        ("both", Unused(timedelta(hours=25)), "idle"),
    ],
)
def test_the_mode_selects_idle_and_daily_resets(
    mode: Literal["none", "idle", "daily", "both"], unused: Unused, due: DueReset | None
) -> None:
    now = datetime(2026, 11, 18, 12, tzinfo=UTC)
    last_used = (now - unused.before).timestamp()
    assert reset_due(SessionReset(mode=mode), updated_at=last_used, now=now, zone=UTC) == due


@pytest.mark.parametrize(
    ("running_for", "blocks"),
    [(0, True), (24 * 3600, True), (24 * 3600 + 1, False), (-60, True)],
)
def test_a_background_process_prevents_a_reset_until_it_is_too_old(running_for: float, blocks: bool) -> None:
    assert process_blocks_reset(NOON - running_for, NOON, SessionReset()) is blocks


@pytest.mark.parametrize(
    ("at", "window", "fresh"),
    [
        (NOON - 3599, 3600, True),
        (NOON - 3600, 3600, True),
        (NOON - 3601, 3600, False),
        (NOON - 6 * 7 * 86400, 3600, False),
        (NOON - 6 * 7 * 86400, 0, True),
        (NOON - 6 * 7 * 86400, -1, True),
        (NOON + 86400, 3600, True),
        (None, 3600, True),
    ],
)
def test_a_time_is_fresh_within_the_window(at: float | None, window: float, fresh: bool) -> None:
    assert is_fresh(at, NOON, window) is fresh


QUIET = SessionReset(notify=False)


@pytest.mark.parametrize(
    ("policy", "reason", "platform", "had_activity", "told"),
    [
        (SessionReset(), "idle", "telegram", True, True),
        (SessionReset(), "daily", "telegram", True, True),
        (SessionReset(), "idle", "telegram", False, False),
        (SessionReset(), "daily", "webhook", True, False),
        (SessionReset(), "daily", "api", True, False),
        (SessionReset(notify_exclude_platforms=()), "daily", "webhook", True, True),
        (QUIET, "daily", "telegram", True, False),
        (SessionReset(), "suspended", "telegram", True, True),
        (QUIET, "suspended", "webhook", False, True),
    ],
)
def test_a_reset_notice_is_due_by_reason_activity_and_platform(
    policy: SessionReset, reason: ResetReason, platform: str, had_activity: bool, told: bool
) -> None:
    assert notice_due(policy, reason=reason, platform=platform, had_activity=had_activity) is told
