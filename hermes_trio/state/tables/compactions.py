"""What the model of a session is not sent any more: how far its summary reaches, and before which row the
results of tools are one line. The transcript itself stays whole."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass

from ..db.column_text import storable
from .transcript import TranscriptRow

Position = tuple[int, int, int]
"""Where a row stands in its session: its turn, its place there, its id. It sorts as the transcript does."""


@dataclass(frozen=True, slots=True)
class Compaction:
    """How a session is shortened."""

    kept: Position = (0, 0, 0)
    """From here on rows are sent; the summary stands for those before."""
    short: Position = (0, 0, 0)
    """Before this, results of tools are one line."""
    summary: str = ""
    todo: str = ""
    """What was still to be done when the summary was written."""
    wasted: int = 0
    """How many attempts in a row have saved too little to be worth another one."""
    not_before: float = 0.0
    """Until when no attempt is made by itself, because the last one failed."""


def position(row: TranscriptRow) -> Position:
    """Where this row stands."""
    return (row.turn_id or 0, row.place, row.id or 0)


def get(db: sqlite3.Connection, session_id: str) -> Compaction:
    """How this session is shortened; not at all, if nobody has."""
    query = (
        "SELECT kept_turn, kept_place, kept_row, short_turn, short_place, short_row, summary, todo, wasted, "
        "not_before FROM compactions WHERE session_id = ?"
    )
    row = db.execute(query, (session_id,)).fetchone()
    return Compaction(row[0:3], row[3:6], *row[6:]) if row else Compaction()


def put(db: sqlite3.Connection, session_id: str, compaction: Compaction) -> None:
    """Let the session be shortened like this. How long its last prompt was says nothing any more."""
    db.execute(
        "INSERT OR REPLACE INTO compactions VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            session_id,
            *compaction.kept,
            *compaction.short,
            storable(compaction.summary),
            storable(compaction.todo),
            compaction.wasted,
            compaction.not_before,
        ),
    )
    db.execute("UPDATE sessions SET last_prompt_tokens = 0 WHERE session_id = ?", (session_id,))


def forget_from(db: sqlite3.Connection, session_id: str, turn_id: int) -> None:
    """A turn and all behind it are taken back: what was made of their rows goes too."""
    db.execute(
        "DELETE FROM compactions WHERE session_id = ? "
        "AND (kept_turn > ?2 OR (kept_turn = ?2 AND kept_place > 0))",
        (session_id, turn_id),
    )
