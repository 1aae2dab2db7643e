"""How long things count: when a conversation that nobody ended ends by itself, whether the person
hears of it, and when a cut turn is too old to be taken up again.

Two clocks can end a conversation: too long without a message, and a time of day that has come since
the last one. Both are asked when the session is used next, so nothing has to run in the meantime.
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
"""Why a session was replaced without anybody asking for it."""


def reset_due(
    policy: SessionReset, *, updated_at: float, now: datetime, zone: tzinfo | None
) -> DueReset | None:
    """Which clock has run out for a session last used at `updated_at`, if one has. A zone of None
    is this machine's. A time in the future, as a corrected clock leaves behind, counts as now."""
    idle_for = now.timestamp() - updated_at
    if policy.mode in ("idle", "both") and idle_for > policy.idle_minutes * 60:
        return "idle"
    if policy.mode in ("daily", "both") and updated_at < _last_daily(policy.at_hour, now, zone):
        return "daily"
    return None


def process_blocks_reset(started_at: float, now: float, policy: SessionReset) -> bool:
    """Whether a live background process keeps its session from being reset. One that is older than
    the limit was forgotten and does not."""
    return now - started_at <= policy.bg_process_max_age_hours * 3600


def notice_due(policy: SessionReset, *, reason: ResetReason, platform: str, had_activity: bool) -> bool:
    """Whether the person is told that the session was reset. Of a suspended one always: it ended
    because something went wrong, not because anybody had chosen that in the configuration. Of one that was
    taken over without its messages, too."""
    if reason in ("suspended", "imported"):
        return True
    return policy.notify and had_activity and platform not in policy.notify_exclude_platforms


def is_fresh(at: float | None, now: float, window: float) -> bool:
    """Whether `at` is at most `window` seconds ago; 0 or less is no limit.

    A time in the future is a clock that was corrected, and counts as now. What has no time cannot
    be shown to be old, and leaving work undone is the greater loss: it counts as fresh. Alone that
    revives nothing: the mark and the tail are asked one by one, and a cut is run once.
    """
    return window <= 0 or at is None or now - at <= window


def _last_daily(at_hour: int, now: datetime, zone: tzinfo | None) -> float:
    """The moment when the clock on the wall last came to `at_hour`.

    The time on the wall is made first and then turned into a moment; hours are never subtracted
    from a moment, because some days have 23 or 25 of them. An hour that the clock skips is the
    moment of the change, and of an hour that comes twice the first counts: one reset a day.
    """
    wall = now.astimezone(zone).replace(tzinfo=None)
    today = wall.replace(hour=at_hour, minute=0, second=0, microsecond=0)
    # Two days back, because places have left out a whole day to change sides of the date line. The
    # subtraction, also of no days, makes it the first of two equal hours.
    days = (today - timedelta(days=back) for back in range(3))
    moments = [day.replace(tzinfo=zone).timestamp() for day in days]
    return max(moment for moment in moments if moment <= now.timestamp())
