"""The table `lives`: one row for each run of a gateway, and the only authority on whether it goes on.

A life is a fencing token. The first statement of each of its transactions moves its beat, and finds no row
when the life is over; then nothing of the transaction is stored. Who ends a life names the beat that it has
seen last, so a life that has stored something since goes on. No clock decides anything here: the times are
for people.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ..db.engine import Db


@dataclass(frozen=True, slots=True)
class LifeRow:
    """A life that goes on."""

    life: str
    node: str
    """The home in which it runs."""
    beat: int
    """The number of its transactions."""


def begin(db: Db, life: str, node: str, at: float) -> None:
    """Store that a life begins."""
    db.execute("INSERT INTO lives (life, node, begun_at) VALUES (?, ?, ?)", (life, node, at))


def move_beat(db: Db, life: str) -> Callable[[], bool]:
    """Count a transaction of a life. What is returned tells whether the life goes on."""
    moved = db.execute("UPDATE lives SET beat = beat + 1 WHERE life = ? AND over_at IS NULL", (life,))
    return lambda: moved.rowcount == 1


def beat_of(db: Db, life: str) -> int:
    """Return the number of the transactions of a life, with the one that asks."""
    (beat,) = db.execute("SELECT beat FROM lives WHERE life = ?", (life,)).fetchone()
    return int(beat)


def living(db: Db) -> list[LifeRow]:
    """Return the lives that go on, as far as anybody knows."""
    query = "SELECT life, node, beat FROM lives WHERE over_at IS NULL ORDER BY begun_at, life"
    return [LifeRow(*row) for row in db.execute(query)]


def end(db: Db, seen: LifeRow, by: str, at: float) -> bool:
    """End a life that has stored nothing since it was seen. Return False if it has, or is over."""
    ends = "UPDATE lives SET over_at = ?, ended_by = ? WHERE life = ? AND beat = ? AND over_at IS NULL"
    return db.execute(ends, (at, by, seen.life, seen.beat)).rowcount == 1


def leave(db: Db, life: str, at: float) -> None:
    """End a life by itself. It stores nothing after this transaction."""
    db.execute("UPDATE lives SET over_at = ?, ended_by = life WHERE life = ? AND over_at IS NULL", (at, life))


def prune(db: Db, *, over_before: float) -> None:
    """Delete the lives that were over before a time."""
    db.execute("DELETE FROM lives WHERE over_at < ?", (over_before,))
