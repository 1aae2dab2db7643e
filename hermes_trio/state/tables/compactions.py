"""The table `compactions`: which part of a transcript the model is sent in a shorter form.

A summary replaces the oldest rows, and older tool results are shortened to one line. The transcript itself
stays complete.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..db.engine import Answer, Db
from .transcript import TranscriptRow

Position = tuple[int, int, int]
"""The position of a row in its session: turn, place and id. Positions sort in the order of the transcript."""


@dataclass(frozen=True, slots=True)
class Compaction:
    """How the transcript of a session is shortened for the model."""

    kept: Position = (0, 0, 0)
    """The first row that is sent; the summary replaces the rows before it."""
    short: Position = (0, 0, 0)
    """Tool results before this position are sent as one line."""
    summary: str = ""
    todo: str = ""
    """The unfinished work at the time of the summary."""
    wasted: int = 0
    """The number of consecutive attempts that saved too little."""
    not_before: float = 0.0
    """The time before which no automatic attempt is made, because the last one failed."""


_COLUMNS = (
    "kept_turn, kept_place, kept_row, short_turn, short_place, short_row, summary, todo, wasted, not_before"
)
_REPLACED = ", ".join(f"{column} = excluded.{column}" for column in _COLUMNS.split(", "))


def position(row: TranscriptRow) -> Position:
    """Return the position of a row."""
    return (row.turn_id or 0, row.place, row.id or 0)


def get(db: Db, session_id: str) -> Compaction:
    """Return the compaction of a session; the default, which shortens nothing, if there is none."""
    return ask(db, session_id)()


def ask(db: Db, session_id: str) -> Answer[Compaction]:
    """Ask for the compaction of a session."""
    found = db.execute(f"SELECT {_COLUMNS} FROM compactions WHERE session_id = ?", (session_id,))  # noqa: S608

    def answer() -> Compaction:
        row = found.fetchone()
        return Compaction(row[0:3], row[3:6], *row[6:]) if row else Compaction()

    return answer


def put(db: Db, session_id: str, compaction: Compaction) -> None:
    """Store the compaction of a session, and reset the size of its last prompt, which is no longer valid."""
    db.execute(
        f"INSERT INTO compactions (session_id, {_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) "  # noqa: S608
        f"ON CONFLICT (session_id) DO UPDATE SET {_REPLACED}",
        (
            session_id,
            *compaction.kept,
            *compaction.short,
            compaction.summary,
            compaction.todo,
            compaction.wasted,
            compaction.not_before,
        ),
    )
    db.execute("UPDATE sessions SET last_prompt_tokens = 0 WHERE session_id = ?", (session_id,))


def forget_from(db: Db, session_id: str, turn_id: int) -> None:
    """Delete the compaction if it covers rows of this turn or a later one: those turns are undone."""
    db.execute(
        "DELETE FROM compactions WHERE session_id = ?1 "
        "AND (kept_turn > ?2 OR (kept_turn = ?2 AND kept_place > 0))",
        (session_id, turn_id),
    )
