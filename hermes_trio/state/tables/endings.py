"""Endings: how each life of the gateway ends, committed in the moment it is decided.

From then on a turn without an end was cut by this ending, whatever kills the process later. A life
without a row crashed.
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from typing import Any, Literal

from ...host.home.state_file import Afterwards


@dataclass(frozen=True, slots=True)
class EndingRow:
    """What was decided, and, once it is over, how it went."""

    life: str
    kind: Literal["stop", "restart"]
    cause: str
    grace: float
    resume_reason: str
    state_left: Afterwards
    recorded_at: float
    asked_by: str | None = None
    finished_at: float | None = None
    report: str | None = None


_COLUMNS = "life, kind, cause, grace, resume_reason, state_left, recorded_at, asked_by, finished_at, report"
_SELECT = f"SELECT {_COLUMNS} FROM endings"  # noqa: S608 - constants of this module


def _ending(row: tuple[Any, ...]) -> EndingRow:
    return EndingRow(*row)


def record(db: sqlite3.Connection, ending: EndingRow) -> None:
    """Commit an ending. A life has one row: a stop that turns a restart into a stop replaces it."""
    db.execute(
        "INSERT INTO endings (life, kind, cause, grace, resume_reason, state_left, recorded_at, asked_by) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (life) DO UPDATE SET kind = excluded.kind, "
        "cause = excluded.cause, grace = excluded.grace, resume_reason = excluded.resume_reason, "
        "state_left = excluded.state_left, asked_by = excluded.asked_by",
        (
            ending.life,
            ending.kind,
            ending.cause,
            ending.grace,
            ending.resume_reason,
            ending.state_left,
            ending.recorded_at,
            ending.asked_by,
        ),
    )


def finish(db: sqlite3.Connection, life: str, report: str, at: float) -> None:
    """Note that the ending is over, with its report (JSON)."""
    db.execute("UPDATE endings SET finished_at = ?, report = ? WHERE life = ?", (at, report, life))


def of_life(db: sqlite3.Connection, life: str) -> EndingRow | None:
    """How a life ended; None if nothing was decided before it was over."""
    row = db.execute(f"{_SELECT} WHERE life = ?", (life,)).fetchone()
    return _ending(row) if row else None


def latest(db: sqlite3.Connection) -> EndingRow | None:
    """The last ending that was decided."""
    row = db.execute(f"{_SELECT} ORDER BY recorded_at DESC, rowid DESC LIMIT 1").fetchone()
    return _ending(row) if row else None


def prune(db: sqlite3.Connection, *, recorded_before: float, limit: int = -1) -> int:
    """Forget endings of long ago, at most so many; returns how many. The last one stays: it says how the
    life before this one ended, however long ago that was."""
    return db.execute(
        "DELETE FROM endings WHERE rowid IN (SELECT rowid FROM endings WHERE recorded_at < ? "
        "AND rowid < (SELECT max(rowid) FROM endings) LIMIT ?)",
        (recorded_before, limit),
    ).rowcount
