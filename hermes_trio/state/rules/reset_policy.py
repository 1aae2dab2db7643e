"""Pure rules of time: when a conversation is reset, whether the person is told, and when a cut turn is too
old to be resumed.

A conversation is reset after a time without messages (*idle*), or at a time of day that has passed since the
last message (*daily*). Both are checked when the session is used next, so no timer has to run.
"""

from __future__ import annotations

from datetime import datetime, timedelta, tzinfo
from typing import Literal

from ...config.schema import SessionReset

DueReset = Literal["idle", "daily"]
ResetReason = Literal["idle", "daily", "suspended", "imported"]
KNOWN_REASONS: dict[str, ResetReason] = {
    "idle": "idle", "daily": "daily", "suspended": "suspended", "imported": "imported"
}  # fmt: skip
"""The reasons for which a session is replaced automatically."""


def reset_due(
    policy: SessionReset, *, updated_at: float, now: datetime, zone: tzinfo | None
) -> DueReset | None:
    """Return which reset is due for a session last used at `updated_at`; None if none is. A `zone` of None is
    the local time zone. A time in the future, as left by a corrected clock, counts as now."""
    idle_for = now.timestamp() - updated_at
    if policy.mode in ("idle", "both") and idle_for > policy.idle_minutes * 60:
        return "idle"
    if policy.mode in ("daily", "both") and updated_at < _last_daily(policy.at_hour, now, zone):
        return "daily"
    return None


def process_blocks_reset(started_at: float, now: float, policy: SessionReset) -> bool:
    """Return whether a running background process prevents the reset of its session. A process older than the
    limit counts as forgotten and does not."""
    return now - started_at <= policy.bg_process_max_age_hours * 3600


def notice_due(policy: SessionReset, *, reason: ResetReason, platform: str, had_activity: bool) -> bool:
    """Return whether the person is told that the session was reset. A suspended session is always announced,
    because it ended after a failure and not by configuration; so is an imported one, which has lost its
    messages."""
    if reason in ("suspended", "imported"):
        return True
    return policy.notify and had_activity and platform not in policy.notify_exclude_platforms


def is_fresh(at: float | None, now: float, window: float) -> bool:
    """Return whether `at` is at most `window` seconds ago; a window of 0 or less has no limit.

    A time in the future comes from a corrected clock and counts as now. A missing time counts as fresh,
    because unfinished work is the greater loss. This alone resumes nothing: the mark and the last rows are
    checked separately, and a cut turn is resumed once.
    """
    return window <= 0 or at is None or now - at <= window


def _last_daily(at_hour: int, now: datetime, zone: tzinfo | None) -> float:
    """Return the last time at which the local clock showed `at_hour`, in seconds since 1970.

    The local time is computed first and then converted; hours are never subtracted from a timestamp, because
    some days have 23 or 25 hours. An hour that the clock skips is the time of the change, and of an hour that
    occurs twice the first counts: there is one reset a day.
    """
    wall = now.astimezone(zone).replace(tzinfo=None)
    today = wall.replace(hour=at_hour, minute=0, second=0, microsecond=0)
    # Two days back, because some places have skipped a whole day to cross the date line. The subtraction,
    # even of zero days, selects the first of two equal hours.
    days = (today - timedelta(days=back) for back in range(3))
    moments = [day.replace(tzinfo=zone).timestamp() for day in days]
    return max(moment for moment in moments if moment <= now.timestamp())
