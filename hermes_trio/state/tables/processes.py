"""Process groups that the gateway started, so that the next life can end what a kill left behind.

A pid is used again; a pid together with the start time of its process is not. Both must match before
anything is ended.
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass, replace
from typing import Any

from . import inbox


@dataclass(frozen=True, slots=True)
class ProcessRow:
    """One process group and what is known of it."""

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
    """When the model heard of its end."""


_COLUMNS = (
    "process_id, session_id, life, pid, pid_time, command, background, started_at, spool, ended_at, "
    "exit_code, told_at"
)
_SELECT = f"SELECT {_COLUMNS} FROM processes"  # noqa: S608 - constants of this module


def _process(row: tuple[Any, ...]) -> ProcessRow:
    process = ProcessRow(*row)
    return replace(process, background=bool(process.background))


def add(db: sqlite3.Connection, process: ProcessRow) -> None:
    """Remember a process that was just started."""
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


def end(db: sqlite3.Connection, process_id: str, exit_code: int | None, at: float) -> bool:
    """Note its end; the exit code is None where nobody saw it. False if the end was known."""
    return (
        db.execute(
            "UPDATE processes SET ended_at = ?, exit_code = ? WHERE process_id = ? AND ended_at IS NULL",
            (at, exit_code, process_id),
        ).rowcount
        == 1
    )


def tell(db: sqlite3.Connection, process_id: str, at: float) -> bool:
    """Note that the model has heard of its end. False if it had before."""
    told = "UPDATE processes SET told_at = ? WHERE process_id = ? AND told_at IS NULL"
    return db.execute(told, (at, process_id)).rowcount == 1


def told_as(process_id: str) -> str:
    """The name of the message that tells of its end."""
    return f"ended:{process_id}"


def seen(db: sqlite3.Connection, process_id: str, at: float) -> None:
    """Note that the model has seen its end: a message that is to tell of it waits no more."""
    tell(db, process_id, at)
    inbox.drop_named(db, told_as(process_id), at)


def untold(db: sqlite3.Connection, session_id: str, life: str) -> list[ProcessRow]:
    """The background processes of a session that ended in a life before this one, and of whose end the model
    has not heard; the oldest first."""
    query = (
        f"{_SELECT} WHERE session_id = ? AND background AND told_at IS NULL AND ended_at IS NOT NULL "
        "AND life <> ? ORDER BY started_at, process_id"
    )
    return [_process(row) for row in db.execute(query, (session_id, life))]


def tell_turn(db: sqlite3.Connection, turn_id: int, at: float) -> None:
    """Note that this turn's model was told of all that `untold` found when the turn began."""
    db.execute(
        "UPDATE processes SET told_at = ?1 WHERE background AND told_at IS NULL AND ended_at IS NOT NULL "
        "AND session_id = (SELECT session_id FROM turns WHERE turn_id = ?2) "
        "AND life <> (SELECT life FROM turns WHERE turn_id = ?2)",
        (at, turn_id),
    )


def alive(db: sqlite3.Connection) -> list[ProcessRow]:
    """Those whose end is not known, the oldest first."""
    query = f"{_SELECT} WHERE ended_at IS NULL ORDER BY started_at, process_id"
    return [_process(row) for row in db.execute(query)]


def of_session(db: sqlite3.Connection, session_id: str) -> list[ProcessRow]:
    """The processes of a session that are not forgotten."""
    return [_process(row) for row in db.execute(f"{_SELECT} WHERE session_id = ?", (session_id,))]


def newest_background(db: sqlite3.Connection, session_id: str) -> float | None:
    """When the youngest living background process of a session was started."""
    (started_at,) = db.execute(
        "SELECT max(started_at) FROM processes WHERE session_id = ? AND background AND ended_at IS NULL",
        (session_id,),
    ).fetchone()
    return None if started_at is None else float(started_at)


def names(db: sqlite3.Connection) -> set[str]:
    """Those that are not forgotten, by their ids."""
    return {name for (name,) in db.execute("SELECT process_id FROM processes")}


def prune(db: sqlite3.Connection, *, ended_before: float) -> list[str]:
    """Forget processes that ended before a time; returns their spools, which can be removed."""
    return [
        spool
        for (spool,) in db.execute(
            "DELETE FROM processes WHERE ended_at < ? RETURNING spool", (ended_before,)
        ).fetchall()
        if spool
    ]
