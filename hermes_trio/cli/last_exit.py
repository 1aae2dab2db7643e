"""A description of the end of the gateway's last life.

There are two sources: the state file, which is written last, and the row of the ending, which is committed
when the ending is decided. Only the file shows whether the life had an ending: after a crash the row may be
that of the life before.
"""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from ..base.errors import GatewayError
from ..host.home.home_id import kept_home_id
from ..host.home.state_file import START_FAILED, GatewayState, PlatformState, Status

if TYPE_CHECKING:
    from ..state.tables.endings import EndingRow

_CAUSES = {
    "planned": "It was stopped",
    "signal": "It was ended by a signal without an announcement",
    "restart": "It ended for a restart",
    "database replaced": "It ended because its database was removed or replaced while it ran",
    "nothing can serve": "It ended because every platform refused it",
    START_FAILED: "It could not start",
}
_ACTIVITY = {GatewayState.STARTING: "started", GatewayState.DRAINING: "was drained"}


def describe_last_life(status: Status, ending: EndingRow | None) -> str:
    """Return sentences about the end of the gateway that left this state."""
    updated = f"{status.updated_at.astimezone():%Y-%m-%d %H:%M:%S}"
    if status.gateway_state is GatewayState.DRAINING and status.after is not None:
        end = f"It was killed while it was ending, after {updated}"
    elif status.exit_reason is None:
        activity = _ACTIVITY.get(status.gateway_state, "ran")
        return (
            f"It was killed or crashed while it {activity}, some time after {updated}. "
            "If nobody killed it, the end of logs/gateway.log tells more."
        )
    else:
        end = f"{_CAUSES.get(status.exit_reason, f'It ended ({status.exit_reason})')} at {updated}"
    return f"{end}{_details(status, ending)}.{''.join(f' {why}' for why in _reasons(status))}"


def _reasons(status: Status) -> list[str]:
    """Return the reasons of a failed start or of refusals, with their remedies."""
    if status.error is not None:
        return [status.error]
    if status.exit_reason != "nothing can serve":
        return []
    return [one.error for one in status.platforms.values() if one.state is PlatformState.FATAL and one.error]


def _details(status: Status, ending: EndingRow | None) -> str:
    # The row belongs to this life if its cause is that of the file. A hanging disk may have prevented the
    # row.
    if ending is None or status.exit_reason not in (None, ending.cause):
        return ""
    asked = f", asked for by {ending.asked_by}" if ending.asked_by else ""
    if ending.finished_at is None:
        return f"{asked}; it was asked for at {datetime.fromtimestamp(ending.recorded_at):%H:%M:%S}"
    return f"{asked}; that took {ending.finished_at - ending.recorded_at:.1f} s"


def last_ending(home: Path) -> EndingRow | None:
    """Return the row of the last ending, or None if there is none or the database cannot be read now."""
    # Imported here, because the status of a running gateway needs neither.
    from ..gateway.nodes.lease import ALONE
    from ..state.tables.endings import latest
    from .home_reader import open_for_reading, store_of

    try:
        home_id = ALONE.home_id if store_of(home).url is None else kept_home_id(home)
        with open_for_reading(home) as db:
            return latest(db, home_id or "")
    except (GatewayError, OSError):
        return None
