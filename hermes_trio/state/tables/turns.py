"""The table `turns`: one row for each turn, and the only authority on how it ended.

A row without an end is a running turn, or, if its life is over, a cut one. The first end wins, and a later
one is refused. Nothing is concluded from times.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from ..db.engine import Answer, Db


class Outcome(StrEnum):
    """The outcome of a turn."""

    ANSWERED = "answered"
    STOPPED = "stopped"
    SUPERSEDED = "superseded"
    RESET = "reset"
    TIMED_OUT = "timed_out"
    FAILED = "failed"
    CUT = "cut"
    UNSTARTED = "unstarted"
    """Cut before the first request to a model: nothing was interrupted, and its messages wait again."""


@dataclass(frozen=True, slots=True)
class EndEffects:
    """The effects of the end of a turn on other tables."""

    inbox: str
    """The new state of its messages: `done`, `of_turn` (closed later, with the mark) or `pending`."""
    mark: str | None
    """The session's resume mark: `cleared`, `set`, or None for unchanged."""


END_EFFECTS: dict[Outcome, EndEffects] = {
    Outcome.ANSWERED: EndEffects(inbox="done", mark="cleared"),
    Outcome.STOPPED: EndEffects(inbox="done", mark="cleared"),
    Outcome.SUPERSEDED: EndEffects(inbox="done", mark="cleared"),
    Outcome.RESET: EndEffects(inbox="done", mark="cleared"),
    Outcome.TIMED_OUT: EndEffects(inbox="done", mark="cleared"),
    Outcome.FAILED: EndEffects(inbox="done", mark="cleared"),
    Outcome.CUT: EndEffects(inbox="of_turn", mark="set"),
    Outcome.UNSTARTED: EndEffects(inbox="pending", mark=None),
}


class Recovery(StrEnum):
    """The state of the recovery of a cut turn's output."""

    ARRIVING = "arriving"
    RECOVERED = "recovered"
    NO_OUTPUT = "no_output"
    GIVEN_UP = "given_up"
    # The journal proves one of these ends, although the turn was stored as cut:
    COMPLETED = "completed"
    CANCELLED = "cancelled"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class TurnRow:
    """One stored turn."""

    turn_id: int
    run_id: str
    session_id: str
    life: str
    started_at: float
    requested_at: float | None = None
    resumes: int | None = None
    ended_at: float | None = None
    outcome: Outcome | None = None
    reason: str | None = None
    """For a cut turn the cause of the cut, for a failed one the error."""
    recovery: Recovery | None = None
    recovery_note: str | None = None
    """For the recovery `failed`: the error in the journal."""
    recovery_attempts: int = 0
    recovery_since: float | None = None
    recovery_bytes: int = 0
    """The size of the part of the journal that the transcript covers."""


_COLUMNS = (
    "turn_id, run_id, session_id, life, started_at, requested_at, resumes, ended_at, outcome, reason, "
    "recovery, recovery_note, recovery_attempts, recovery_since, recovery_bytes"
)
_SELECT = f"SELECT {_COLUMNS} FROM turns"  # noqa: S608 - constants of this module


def _turn(row: tuple[Any, ...]) -> TurnRow:
    turn = TurnRow(*row)
    return replace(
        turn,
        outcome=Outcome(turn.outcome) if turn.outcome else None,
        recovery=Recovery(turn.recovery) if turn.recovery else None,
    )


def begin(
    db: Db,
    *,
    run_id: str,
    session_id: str,
    life: str,
    at: float,
    resumes: int | None = None,
) -> int:
    """Add a running turn; return its id. The database refuses a second one in the same session."""
    (turn_id,) = db.execute(
        "INSERT INTO turns (run_id, session_id, life, started_at, resumes) VALUES (?, ?, ?, ?, ?) "
        "RETURNING turn_id",
        (run_id, session_id, life, at, resumes),
    ).fetchone()
    return int(turn_id)


def remove(db: Db, turn_id: int) -> None:
    """Delete a turn, with its rows of the transcript."""
    db.execute("DELETE FROM turns WHERE turn_id = ?", (turn_id,))


def note_request(db: Db, turn_id: int, at: float) -> None:
    """Record the first request to a model: from here on a cut interrupts the turn."""
    db.execute(
        "UPDATE turns SET requested_at = ? WHERE turn_id = ? AND requested_at IS NULL",
        (at, turn_id),
    )


def note_stop(db: Db, session_id: str, at: float) -> None:
    """Record that a person has stopped the running turn of a session. Its end takes a moment: if it is cut
    before that, its outcome is still *stopped*."""
    db.execute("UPDATE turns SET stopped_at = ? WHERE session_id = ? AND ended_at IS NULL", (at, session_id))


def ask_end(
    db: Db, turn_id: int, outcome: Outcome, at: float, reason: str | None = None
) -> Answer[tuple[Outcome, str] | None]:
    """End a turn; the answer has its outcome and its session id, or is None if it has an end already: the
    first one wins. The recovery of a cut turn starts as *arriving*."""
    recovery, since = (Recovery.ARRIVING, at) if outcome is Outcome.CUT else (None, None)
    ended = db.execute(
        "UPDATE turns SET ended_at = ?1, reason = ?3, recovery = ?4, recovery_since = ?5, outcome = "
        "CASE WHEN stopped_at IS NOT NULL AND ?2 IN ('cut', 'unstarted') THEN 'stopped' ELSE ?2 END "
        "WHERE turn_id = ?6 AND ended_at IS NULL RETURNING outcome, session_id",
        (at, outcome, reason, recovery, since, turn_id),
    )

    def answer() -> tuple[Outcome, str] | None:
        row = ended.fetchone()
        return (Outcome(row[0]), row[1]) if row else None

    return answer


def get(db: Db, turn_id: int) -> TurnRow | None:
    """Return a turn by its id; None if there is none."""
    row = db.execute(f"{_SELECT} WHERE turn_id = ?", (turn_id,)).fetchone()
    return _turn(row) if row else None


def by_run(db: Db, run_id: str) -> TurnRow | None:
    """Return a turn by its run id; None if there is none."""
    row = db.execute(f"{_SELECT} WHERE run_id = ?", (run_id,)).fetchone()
    return _turn(row) if row else None


def of_session(db: Db, session_id: str) -> list[TurnRow]:
    """Return the turns of a session, the oldest first."""
    query = f"{_SELECT} WHERE session_id = ? ORDER BY turn_id"
    return [_turn(row) for row in db.execute(query, (session_id,))]


def last_of(db: Db, session_id: str) -> TurnRow | None:
    """Return the newest turn of a session; None if there is none."""
    row = db.execute(
        f"{_SELECT} WHERE session_id = ? ORDER BY turn_id DESC LIMIT 1", (session_id,)
    ).fetchone()
    return _turn(row) if row else None


def ask_recovering(db: Db, session_id: str) -> Answer[bool]:
    """Ask whether the journal of a cut turn of this session may have more than its transcript."""
    query = "SELECT 1 FROM turns WHERE session_id = ? AND recovery IS NOT NULL LIMIT 1"
    found = db.execute(query, (session_id,))
    return lambda: found.fetchone() is not None


def ask_known(db: Db, run_id: str) -> Answer[bool]:
    """Ask whether there is a turn with this run id."""
    found = db.execute("SELECT 1 FROM turns WHERE run_id = ?", (run_id,))
    return lambda: found.fetchone() is not None


def run_ends(db: Db, session_id: str) -> dict[str, float | None]:
    """Return the end time of each run of a session; None for a running one."""
    query = "SELECT run_id, ended_at FROM turns WHERE session_id = ?"
    return dict(db.execute(query, (session_id,)))


def runs_in(db: Db, session_id: str) -> bool:
    """Return whether a turn of this session has no end."""
    query = "SELECT 1 FROM turns WHERE session_id = ? AND ended_at IS NULL"
    return db.execute(query, (session_id,)).fetchone() is not None


def unended(db: Db) -> list[TurnRow]:
    """Return the turns without an end: those that run, and those that were cut."""
    query = f"{_SELECT} WHERE ended_at IS NULL ORDER BY turn_id"
    return [_turn(row) for row in db.execute(query)]


def left_open(db: Db) -> list[TurnRow]:
    """Return the turns without an end whose life is over: each of them was cut."""
    query = (
        f"{_SELECT} WHERE ended_at IS NULL AND NOT EXISTS "  # noqa: S608 - constants of this module
        "(SELECT 1 FROM lives WHERE lives.life = turns.life AND over_at IS NULL) ORDER BY turn_id"
    )
    return [_turn(row) for row in db.execute(query)]


def since(db: Db, run_id: str, *, margin: float, limit: int) -> list[TurnRow]:
    """Return up to `limit` turns that may have had events since this run began, the oldest first. The end of
    a turn is stored shortly before its last event, hence the margin in seconds."""
    query = (
        f"{_SELECT}, (SELECT turn_id AS first, started_at AS began FROM turns WHERE run_id = ?) AS since "  # noqa: S608
        "WHERE ended_at IS NULL OR turn_id >= first OR ended_at >= began - ? ORDER BY turn_id LIMIT ?"
    )
    return [_turn(row) for row in db.execute(query, (run_id, margin, limit))]


def last_cut(db: Db, session_id: str) -> TurnRow | None:
    """Return the newest cut turn of a session; None if there is none."""
    return next((turn for turn in reversed(of_session(db, session_id)) if turn.outcome is Outcome.CUT), None)


def resume_of(db: Db, turn_id: int) -> TurnRow | None:
    """Return the turn that resumed this cut turn, whatever its outcome; None if none did."""
    row = db.execute(f"{_SELECT} WHERE resumes = ?", (turn_id,)).fetchone()
    return _turn(row) if row else None


def lives_cut_in_a_row(db: Db, session_id: str) -> int:
    """Return the number of lives in which a turn of this session was cut since the last answered turn.

    It is counted from the turns. A separate counter would have to be reset by a good turn, kept by a restart
    and left alone by a clean drain, and each of those has been a bug before.
    """
    (count,) = db.execute(
        "SELECT count(DISTINCT life) FROM turns WHERE session_id = ?1 AND outcome = 'cut' "
        "AND turn_id > (SELECT cuts_forgiven FROM sessions WHERE session_id = ?1) "
        "AND turn_id > (SELECT coalesce(max(turn_id), 0) FROM turns "
        "WHERE session_id = ?1 AND outcome = 'answered')",
        (session_id,),
    ).fetchone()
    return int(count)


def crashes_before_asking(db: Db, turn_id: int) -> int:
    """Return the number of consecutive turns, directly before this one in its session, that crashed before
    their first request to a model."""
    (count,) = db.execute(
        "WITH here AS (SELECT session_id FROM turns WHERE turn_id = ?) "
        "SELECT count(*) FROM turns JOIN here USING (session_id) "
        "WHERE outcome = 'unstarted' AND reason = 'crash' AND turn_id > "
        "(SELECT coalesce(max(turn_id), 0) FROM turns JOIN here USING (session_id) "
        "WHERE outcome <> 'unstarted')",
        (turn_id,),
    ).fetchone()
    return int(count)


def drop_recovery(db: Db, turn_id: int) -> None:
    """Clear the recovery of a turn: nothing of its journal is added to the transcript any more."""
    db.execute("UPDATE turns SET recovery = NULL WHERE turn_id = ?", (turn_id,))


def note_recovery(db: Db, before: TurnRow, after: TurnRow) -> bool:
    """Store the progress of a recovery. Return False, and store nothing, if another reader has stored some
    since `before` was read."""
    return (
        db.execute(
            "UPDATE turns SET recovery = ?, recovery_note = ?, recovery_attempts = ?, recovery_since = ?, "
            "recovery_bytes = ? WHERE turn_id = ? "
            "AND coalesce(recovery, '') = coalesce(?, '') AND recovery_attempts = ? AND recovery_bytes = ?",
            (
                after.recovery,
                after.recovery_note,
                after.recovery_attempts,
                after.recovery_since,
                after.recovery_bytes,
                before.turn_id,
                before.recovery,
                before.recovery_attempts,
                before.recovery_bytes,
            ),
        ).rowcount
        == 1
    )
