"""The table `approvals`: approvals and questions that a turn asks of a person.

A request lives as long as its turn. The end of the turn closes it, so that a late answer is recognised, and a
resumed turn asks again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from ..db.engine import Answer, Db

ALWAYS = "allowed:"
"""Prefix of the `meta` names that record permanent approvals; their value is the time of the approval."""


@dataclass(frozen=True, slots=True)
class ApprovalRow:
    """One request to a person. `asked` is JSON: the command or the question, and the choices."""

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


def _approval(row: tuple[Any, ...]) -> ApprovalRow:
    return ApprovalRow(*row)


def ask(db: Db, request: ApprovalRow) -> None:
    """Store a request, before it is shown to anybody."""
    db.execute(
        "INSERT INTO approvals (approval_id, turn_id, kind, asked, asked_at) VALUES (?, ?, ?, ?, ?)",
        (request.approval_id, request.turn_id, request.kind, request.asked, request.asked_at),
    )


def answer(db: Db, approval_id: str, text: str, *, by: str, at: float) -> bool:
    """Store the answer. Return False if it is too late: the request was answered, or closed with its turn."""
    return (
        db.execute(
            "UPDATE approvals SET answer = ?, answered_by = ?, closed_at = ? "
            "WHERE approval_id = ? AND closed_at IS NULL",
            (text, by, at, approval_id),
        ).rowcount
        == 1
    )


def close(db: Db, approval_id: str, at: float) -> None:
    """Close a request without an answer, if it is open."""
    db.execute(
        "UPDATE approvals SET closed_at = ? WHERE approval_id = ? AND closed_at IS NULL", (at, approval_id)
    )


def get(db: Db, approval_id: str) -> ApprovalRow | None:
    """Return a request, open or closed; None if there is none with this id."""
    row = db.execute(
        f"{_SELECT} WHERE approval_id = ?",
        (approval_id,),
    ).fetchone()
    return _approval(row) if row else None


def open_of_turn(db: Db, turn_id: int) -> list[ApprovalRow]:
    """Return the open requests of a turn, the oldest first."""
    query = f"{_SELECT} WHERE turn_id = ? AND closed_at IS NULL ORDER BY asked_at, approval_id"
    return [_approval(row) for row in db.execute(query, (turn_id,))]


def count_open(db: Db) -> int:
    """Return the number of questions that wait for an answer."""
    return int(db.execute("SELECT count(*) FROM approvals WHERE closed_at IS NULL").fetchone()[0])


def close_of_turn(db: Db, turn_id: int, at: float) -> Answer[list[ApprovalRow]]:
    """Close the open requests of a turn that has ended. The answer has them, the oldest first."""
    query = (
        "UPDATE approvals SET closed_at = ? WHERE turn_id = ? AND closed_at IS NULL "  # noqa: S608 - a constant
        f"RETURNING {_COLUMNS}"
    )
    closed = db.execute(query, (at, turn_id))
    return lambda: sorted(map(_approval, closed), key=lambda one: (one.asked_at, one.approval_id))


def prune(db: Db, *, closed_before: float, limit: int) -> int:
    """Delete up to `limit` requests that were closed before a time; return their number."""
    return db.execute(
        "DELETE FROM approvals WHERE approval_id IN "
        "(SELECT approval_id FROM approvals WHERE closed_at < ? LIMIT ?)",
        (closed_before, limit),
    ).rowcount
