"""The table `processes`: process groups that the gateway started, so that the next life can end leftovers.

A pid is reused; a pid together with the start time of its process is not. Both must match before a process
is killed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from ..db.engine import Answer, Db
from . import inbox


@dataclass(frozen=True, slots=True)
class ProcessRow:
    """One process group, running or ended."""

    process_id: str
    session_id: str
    life: str
    pid: int
    pid_time: float
    command: str
    background: bool
    started_at: float
    spool: str | None = None
    ended_at: float | None = None
    exit_code: int | None = None
    told_at: float | None = None
    """The time at which the model was told of its end."""


_COLUMNS = (
    "process_id, session_id, life, pid, pid_time, command, background, started_at, spool, ended_at, "
    "exit_code, told_at"
)
_SELECT = f"SELECT {_COLUMNS} FROM processes"  # noqa: S608 - constants of this module


def _process(row: tuple[Any, ...]) -> ProcessRow:
    process = ProcessRow(*row)
    return replace(process, background=bool(process.background))


def add(db: Db, process: ProcessRow) -> None:
    """Store a process that was just started."""
    db.execute(
        f"INSERT INTO processes ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",  # noqa: S608
        (
            process.process_id,
            process.session_id,
            process.life,
            process.pid,
            process.pid_time,
            process.command,
            process.background,
            process.started_at,
            process.spool,
            process.ended_at,
            process.exit_code,
            process.told_at,
        ),
    )


def end(db: Db, process_id: str, exit_code: int | None, at: float) -> bool:
    """Store the end of a process; the exit code is None if it is unknown. Return False if the end was stored
    before."""
    return (
        db.execute(
            "UPDATE processes SET ended_at = ?, exit_code = ? WHERE process_id = ? AND ended_at IS NULL",
            (at, exit_code, process_id),
        ).rowcount
        == 1
    )


def note_told(db: Db, process_id: str, at: float) -> bool:
    """Record that the model was told of the end of a process. Return False if it was told before."""
    told = "UPDATE processes SET told_at = ? WHERE process_id = ? AND told_at IS NULL"
    return db.execute(told, (at, process_id)).rowcount == 1


def end_message_key(process_id: str) -> str:
    """Return the key of the message that tells the model of the end of a process."""
    return f"ended:{process_id}"


def note_seen(db: Db, process_id: str, at: float) -> None:
    """Record that the model has seen the end of a process, and drop the message that was to tell it."""
    note_told(db, process_id, at)
    inbox.drop_named(db, end_message_key(process_id), at)


def ask_untold(db: Db, session_id: str, life: str) -> Answer[list[ProcessRow]]:
    """Ask for the background processes of a session that ended in an earlier life without the model being
    told, the oldest first."""
    query = (
        f"{_SELECT} WHERE session_id = ? AND background AND told_at IS NULL AND ended_at IS NOT NULL "
        "AND life <> ? ORDER BY started_at, process_id"
    )
    found = db.execute(query, (session_id, life))
    return lambda: [_process(row) for row in found]


def note_told_in_turn(db: Db, turn_id: int, at: float) -> None:
    """Record that the model of this turn was told of the processes that `ask_untold` found at its start."""
    db.execute(
        "UPDATE processes SET told_at = ?1 WHERE background AND told_at IS NULL AND ended_at IS NOT NULL "
        "AND session_id = (SELECT session_id FROM turns WHERE turn_id = ?2) "
        "AND life <> (SELECT life FROM turns WHERE turn_id = ?2)",
        (at, turn_id),
    )


def alive(db: Db) -> list[ProcessRow]:
    """Return the processes without a stored end, the oldest first."""
    query = f"{_SELECT} WHERE ended_at IS NULL ORDER BY started_at, process_id"
    return [_process(row) for row in db.execute(query)]


def alive_in_home(db: Db, life: str) -> list[ProcessRow]:
    """Return the processes without a stored end that this life or an earlier one of its home has started: the
    ids of the others are of another machine."""
    query = (
        f"{_SELECT} WHERE ended_at IS NULL AND NOT EXISTS "  # noqa: S608 - constants of this module
        "(SELECT 1 FROM lives WHERE lives.life = processes.life "
        "AND coalesce(home, node) <> (SELECT coalesce(home, node) FROM lives WHERE life = ?)) "
        "ORDER BY started_at, process_id"
    )
    return [_process(row) for row in db.execute(query, (life,))]


def of_session(db: Db, session_id: str) -> list[ProcessRow]:
    """Return the stored processes of a session."""
    return [_process(row) for row in db.execute(f"{_SELECT} WHERE session_id = ?", (session_id,))]


def newest_background(db: Db, session_id: str) -> float | None:
    """Return the start time of the newest running background process of a session; None if none runs."""
    (started_at,) = db.execute(
        "SELECT max(started_at) FROM processes WHERE session_id = ? AND background AND ended_at IS NULL",
        (session_id,),
    ).fetchone()
    return None if started_at is None else float(started_at)


def names(db: Db) -> set[str]:
    """Return the ids of all stored processes."""
    return {name for (name,) in db.execute("SELECT process_id FROM processes")}


def prune(db: Db, *, ended_before: float) -> list[str]:
    """Delete processes that ended before a time; return their spools, which can be removed."""
    return [
        spool
        for (spool,) in db.execute(
            "DELETE FROM processes WHERE ended_at < ? RETURNING spool", (ended_before,)
        ).fetchall()
        if spool
    ]
