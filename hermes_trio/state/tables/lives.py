"""The table `lives`: one row for each run of a gateway, and the only authority on whether it goes on.

A life is a fencing token. The first statement of each of its transactions moves its beat, and finds no row
when the life is over; then nothing of the transaction is stored. On a server a second statement lets the
transaction fail then: the server finds the end of the life, and no answer is waited for before the commit.

Who ends a life names the beat that it has seen last, so a life that has stored something since goes on. No
clock decides anything here: the times are for people.
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
    """The name of the home in which it runs."""
    beat: int
    """The number of its transactions."""


@dataclass(frozen=True, slots=True)
class Peer:
    """Another life that goes on, as far as anybody knows."""

    life: str
    node: str
    address: str | None
    """Where its web server is reached; None if it has none, or not yet."""


def begin(db: Db, life: str, node: str, at: float, *, home: str | None = None) -> bool:
    """Store that a life begins in a home; left out: the one that is known by this name. Return False, with
    nothing stored, if a life that goes on has the name."""
    begins = "INSERT INTO lives (life, node, begun_at, home) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING"
    return db.execute(begins, (life, node, at, home)).rowcount == 1


def move_beat(db: Db, life: str) -> Callable[[], bool]:
    """Count a transaction of a life. What is returned tells whether the life goes on."""
    moved = db.execute("UPDATE lives SET beat = beat + 1 WHERE life = ? AND over_at IS NULL", (life,))
    return lambda: moved.rowcount == 1


def demand(db: Db, life: str) -> None:
    """Let the transaction fail on a server if this life is over: there a division by zero is an error. The
    result need not be waited for."""
    db.execute("SELECT 1 / count(*) FROM lives WHERE life = ? AND over_at IS NULL", (life,))


def beat_of(db: Db, life: str) -> int:
    """Return the number of the transactions of a life, with the one that asks."""
    (beat,) = db.execute("SELECT beat FROM lives WHERE life = ?", (life,)).fetchone()
    return int(beat)


def living(db: Db) -> list[LifeRow]:
    """Return the lives that go on, as far as anybody knows."""
    query = "SELECT life, node, beat FROM lives WHERE over_at IS NULL ORDER BY begun_at, life"
    return [LifeRow(*row) for row in db.execute(query)]


def living_in(db: Db, home: str) -> list[LifeRow]:
    """Return the lives of a home that go on, as far as anybody knows."""
    query = "SELECT life, node, beat FROM lives WHERE over_at IS NULL AND coalesce(home, node) = ?"
    return [LifeRow(*row) for row in db.execute(query, (home,))]


def home_of(db: Db, life: str) -> str:
    """Return the home in which a life runs, or ran."""
    (home,) = db.execute("SELECT coalesce(home, node) FROM lives WHERE life = ?", (life,)).fetchone()
    return str(home)


def living_named(db: Db, node: str) -> LifeRow | None:
    """Return the life of this name that goes on, as far as anybody knows; None if there is none."""
    query = "SELECT life, node, beat FROM lives WHERE over_at IS NULL AND node = ?"
    row = db.execute(query, (node,)).fetchone()
    return LifeRow(*row) if row else None


def note_address(db: Db, life: str, address: str) -> None:
    """Store where the other lives reach the web server of this one."""
    db.execute("UPDATE lives SET address = ? WHERE life = ?", (address, life))


def peers_of(db: Db, life: str) -> list[Peer]:
    """Return the lives that go on beside this one."""
    query = "SELECT life, node, address FROM lives WHERE over_at IS NULL AND life <> ? ORDER BY begun_at"
    return [Peer(*row) for row in db.execute(query, (life,))]


def end(db: Db, seen: LifeRow, by: str, at: float) -> bool:
    """End a life that has stored nothing since it was seen. Return False if it has, or is over."""
    ends = "UPDATE lives SET over_at = ?, ended_by = ? WHERE life = ? AND beat = ? AND over_at IS NULL"
    return db.execute(ends, (at, by, seen.life, seen.beat)).rowcount == 1


def leave(db: Db, life: str, at: float) -> None:
    """End a life by itself. It stores nothing after this transaction."""
    db.execute("UPDATE lives SET over_at = ?, ended_by = life WHERE life = ? AND over_at IS NULL", (at, life))


def prune(db: Db, *, over_before: float) -> None:
    """Delete the lives that were over before a time, except those whose ending is kept."""
    kept = "EXISTS (SELECT 1 FROM endings WHERE endings.life = lives.life)"
    db.execute(f"DELETE FROM lives WHERE over_at < ? AND NOT {kept}", (over_before,))  # noqa: S608
