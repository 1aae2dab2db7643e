"""The table `endings`: how each life of the gateway ends, committed as soon as it is decided.

From that commit on, a turn without an end was cut by this ending, whatever kills the process later. A life
without a row crashed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from ...host.home.state_file import Afterwards
from ..db.engine import Db


@dataclass(frozen=True, slots=True)
class EndingRow:
    """The decision how a life ends, and after its end the report."""

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


def record(db: Db, ending: EndingRow) -> None:
    """Store the ending of a life. A life has one row: a stop during a restart replaces the restart."""
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


def finish(db: Db, life: str, report: str, at: float) -> None:
    """Store the time and the report (JSON) of a finished ending."""
    db.execute("UPDATE endings SET finished_at = ?, report = ? WHERE life = ?", (at, report, life))


def of_life(db: Db, life: str) -> EndingRow | None:
    """Return the ending of a life; None for a life that crashed before one was decided."""
    row = db.execute(f"{_SELECT} WHERE life = ?", (life,)).fetchone()
    return _ending(row) if row else None


def latest(db: Db, home: str) -> EndingRow | None:
    """Return the ending that was recorded last in a home. Others may share the store."""
    there = "life IN (SELECT life FROM lives WHERE coalesce(home, node) = ?)"
    query = f"{_SELECT} WHERE {there} ORDER BY recorded_at DESC, life DESC LIMIT 1"
    row = db.execute(query, (home,)).fetchone()
    return _ending(row) if row else None


def prune(db: Db, *, recorded_before: float, limit: int) -> int:
    """Delete up to `limit` endings recorded before a time; return their number. The last ending of each home
    stays, whatever its age: it tells how the previous life ended there."""
    return db.execute(
        "DELETE FROM endings WHERE life IN (SELECT life FROM (SELECT endings.life, recorded_at, row_number() "
        "OVER (PARTITION BY coalesce(home, node) ORDER BY recorded_at DESC, endings.life DESC) AS age "
        "FROM endings LEFT JOIN lives ON lives.life = endings.life) AS of_homes "
        "WHERE age > 1 AND recorded_at < ? LIMIT ?)",
        (recorded_before, limit),
    ).rowcount
