"""How the last life of a gateway ended, in words.

Two tell: the state file, written last of all, and the row of the ending, committed when it was decided. The
file alone says whether there was an ending at all; a row may be of the life before the one that crashed.
"""

from __future__ import annotations

from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from ..host.home.state_file import START_FAILED, GatewayState, PlatformState, Status

if TYPE_CHECKING:
    from ..state.tables.endings import EndingRow

_CAUSES = {
    "planned": "It was stopped",
    "signal": "It was ended by a signal that nobody had announced",
    "restart": "It ended for a restart",
    "database replaced": "It ended because its database was removed or replaced while it ran",
    "nothing can serve": "It ended because every platform had refused it",
    START_FAILED: "It could not start",
}
_DOING = {GatewayState.STARTING: "started", GatewayState.DRAINING: "was held"}


def last_life(status: Status, ending: EndingRow | None) -> str:
    """What became of the gateway that left this state."""
    seen = f"{status.updated_at.astimezone():%Y-%m-%d %H:%M:%S}"
    if status.gateway_state is GatewayState.DRAINING and status.after is not None:
        told = f"It was killed while it was ending, after {seen}"
    elif status.exit_reason is None:
        what = _DOING.get(status.gateway_state, "ran")
        return (
            f"It was killed or crashed while it {what}, some time after {seen}. "
            "If nobody killed it, the end of logs/gateway.log tells more."
        )
    else:
        told = f"{_CAUSES.get(status.exit_reason, f'It ended ({status.exit_reason})')} at {seen}"
    return f"{told}{_details(status, ending)}.{''.join(f' {why}' for why in _reasons(status))}"


def _reasons(status: Status) -> list[str]:
    """Return what was wrong, with the remedies."""
    if status.error is not None:
        return [status.error]
    if status.exit_reason != "nothing can serve":
        return []
    return [one.error for one in status.platforms.values() if one.state is PlatformState.FATAL and one.error]


def _details(status: Status, ending: EndingRow | None) -> str:
    # The row is of this life if it says what the file says; a disk that hung may have kept it out.
    if ending is None or status.exit_reason not in (None, ending.cause):
        return ""
    asked = f", asked for by {ending.asked_by}" if ending.asked_by else ""
    if ending.finished_at is None:
        return f"{asked}; it was asked for at {datetime.fromtimestamp(ending.recorded_at):%H:%M:%S}"
    return f"{asked}; that took {ending.finished_at - ending.recorded_at:.1f} s"


def last_ending(home: Path) -> EndingRow | None:
    """The row of the last ending; None if there is none, or the database cannot be read now."""
    # Both here: a gateway that runs is told of without them.
    import sqlite3

    from ..state.tables.endings import latest

    try:
        uri = f"{(home / 'gateway.db').absolute().as_uri()}?mode=ro"
        with closing(sqlite3.connect(uri, uri=True)) as db:
            return latest(db)
    except sqlite3.Error:
        return None
