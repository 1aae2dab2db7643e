"""Approvals and questions: what a turn asks a person.

They live as long as their turn. Its end closes them, so that a late answer can be told so, and a
resumed turn asks again.
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from typing import Any, Literal

ALWAYS = "allowed:"
"""What the names of facts begin with that tell what is allowed for always; their value is since when."""


@dataclass(frozen=True, slots=True)
class ApprovalRow:
    """One thing asked of a person. `asked` is JSON: the command or the question, and the choices."""

    approval_id: str
    turn_id: int
    kind: Literal["approval", "question"]
    asked: str
    asked_at: float
    answer: str | None = None
    answered_by: str | None = None
    closed_at: float | None = None


_COLUMNS = "approval_id, turn_id, kind, asked, asked_at, answer, answered_by, closed_at"
_SELECT = f"SELECT {_COLUMNS} FROM approvals"  # noqa: S608 - constants of this module


def _request(row: tuple[Any, ...]) -> ApprovalRow:
    return ApprovalRow(*row)


def ask(db: sqlite3.Connection, request: ApprovalRow) -> None:
    """Store what is asked, before anybody is shown it."""
    db.execute(
        "INSERT INTO approvals (approval_id, turn_id, kind, asked, asked_at) VALUES (?, ?, ?, ?, ?)",
        (request.approval_id, request.turn_id, request.kind, request.asked, request.asked_at),
    )


def answer(db: sqlite3.Connection, approval_id: str, text: str, *, by: str, at: float) -> bool:
    """Store the answer. False if it comes too late: answered before, or closed with its turn."""
    return (
        db.execute(
            "UPDATE approvals SET answer = ?, answered_by = ?, closed_at = ? "
            "WHERE approval_id = ? AND closed_at IS NULL",
            (text, by, at, approval_id),
        ).rowcount
        == 1
    )


def close(db: sqlite3.Connection, approval_id: str, at: float) -> None:
    """Nobody waits for this answer any more."""
    db.execute(
        "UPDATE approvals SET closed_at = ? WHERE approval_id = ? AND closed_at IS NULL", (at, approval_id)
    )


def get(db: sqlite3.Connection, approval_id: str) -> ApprovalRow | None:
    """One request, open or closed."""
    row = db.execute(
        f"{_SELECT} WHERE approval_id = ?",
        (approval_id,),
    ).fetchone()
    return _request(row) if row else None


def open_of_turn(db: sqlite3.Connection, turn_id: int) -> list[ApprovalRow]:
    """What this turn still waits for, the oldest first."""
    query = f"{_SELECT} WHERE turn_id = ? AND closed_at IS NULL ORDER BY asked_at, rowid"
    return [_request(row) for row in db.execute(query, (turn_id,))]


def close_of_turn(db: sqlite3.Connection, turn_id: int, at: float) -> None:
    """The turn is over: nobody waits for an answer any more."""
    db.execute("UPDATE approvals SET closed_at = ? WHERE turn_id = ? AND closed_at IS NULL", (at, turn_id))


def prune(db: sqlite3.Connection, *, closed_before: float, limit: int = -1) -> int:
    """Forget what was closed before a time, at most so many; returns how many."""
    return db.execute(
        "DELETE FROM approvals WHERE rowid IN (SELECT rowid FROM approvals WHERE closed_at < ? LIMIT ?)",
        (closed_before, limit),
    ).rowcount
