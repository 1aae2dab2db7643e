"""The table `meta`: small facts about the home, by name."""

from __future__ import annotations

from ..db.engine import Db


def get(db: Db, name: str) -> str | None:
    """Return the value of a fact, or None."""
    row = db.execute("SELECT value FROM meta WHERE name = ?", (name,)).fetchone()
    return row[0] if row else None


def put(db: Db, name: str, value: str) -> None:
    """Store a fact."""
    db.execute(
        "INSERT INTO meta (name, value) VALUES (?, ?) "
        "ON CONFLICT (name) DO UPDATE SET value = excluded.value",
        (name, value),
    )


def drop(db: Db, prefix: str) -> int:
    """Delete the facts whose names begin with `prefix`; return their number."""
    return db.execute("DELETE FROM meta WHERE substr(name, 1, length(?1)) = ?1", (prefix,)).rowcount


def every(db: Db, prefix: str) -> list[tuple[str, str]]:
    """Return name and value of the facts whose names begin with `prefix`."""
    query = "SELECT name, value FROM meta WHERE substr(name, 1, length(?1)) = ?1 ORDER BY name"
    return list(db.execute(query, (prefix,)))
