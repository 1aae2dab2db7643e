"""Opening `gateway.db`: what may be there, and what is done about it.

| what is there | what is done |
|---|---|
| nothing, or an empty file | made, 0600 in a directory that is 0700, and brought to the newest schema |
| an older schema | a copy is kept beside it, then the missing steps are applied in order |
| a step we do not know | refused and left untouched: a newer version wrote it |
| not SQLite, or damaged | put aside as `gateway.db.damaged-<time>` (with its log) and a fresh one begun |
| a directory, no permission, another process's lock | refused with the remedy |

A schema step is a numbered SQL file. It is applied in a transaction of its own, which also records its
name, so a kill in the middle leaves the schema before the step or behind it.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from urllib.parse import quote

import structlog

from ..errors import (
    StoreBusy,
    StoreDamaged,
    StoreError,
    StoreFull,
    StoreReadOnly,
    StoreTooNew,
    StoreUnusable,
)
from ..host.files import make_private_dir, open_private
from ..world import World

BUSY_MS = 2000
_OLDEST_SQLITE = (3, 37, 0)  # STRICT tables
_MAGIC = b"SQLite format 3\0"

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class SchemaStep:
    """One numbered change of the schema: its name is recorded, its SQL is one or more statements."""

    name: str
    sql: str


@dataclass(frozen=True, slots=True)
class Connections:
    """The two connections of an open store."""

    writing: sqlite3.Connection
    reading: sqlite3.Connection
    damaged_copy: Path | None


class _Damaged(Exception):
    """What is at the path is not a database that can be read."""


def shipped_steps() -> Sequence[SchemaStep]:
    """The schema of this version, in order."""
    files = resources.files(__package__).joinpath("schema").iterdir()
    steps = (SchemaStep(f.name.removesuffix(".sql"), f.read_text("utf-8")) for f in files)
    return sorted(steps, key=lambda step: step.name)


def open_connections(path: Path, world: World, steps: Sequence[SchemaStep]) -> Connections:
    """Open what is at `path`, in the way the table above says."""
    damaged_copy = None
    try:
        _prepare_file(path)
        try:
            writing = _open_writing(path, world, steps)
        except _Damaged as damage:
            damaged_copy = _put_aside(path, world)
            log.error(
                "the database was damaged; put it aside and began a fresh one",
                damaged=damaged_copy.name,
                reason=str(damage),
            )
            _prepare_file(path)
            writing = _open_writing(path, world, steps)
    except OSError as error:
        raise StoreUnusable(
            path,
            f"cannot be opened ({error.strerror or error})",
            "Check that the home is a directory that this account may write to.",
        ) from error
    except sqlite3.Error as error:
        raise typed(error, path)  # noqa: B904 - has its cause
    try:
        reading = connect_reading(path)
    except BaseException:
        writing.close()
        raise
    return Connections(writing, reading, damaged_copy)


def connect_reading(path: Path) -> sqlite3.Connection:
    """A connection that sees what is committed and cannot write; also for another process."""
    try:
        connection = sqlite3.connect(
            f"file:{quote(str(path))}?mode=ro",
            uri=True,
            isolation_level=None,
            check_same_thread=False,
            timeout=BUSY_MS / 1000,
        )
        connection.execute("PRAGMA query_only = ON")
    except sqlite3.Error as error:
        raise typed(error, path)  # noqa: B904 - has its cause
    return connection


def _prepare_file(path: Path) -> None:
    if sqlite3.sqlite_version_info < _OLDEST_SQLITE:
        raise StoreUnusable(
            path,
            f"this Python has SQLite {sqlite3.sqlite_version}",
            f"SQLite {'.'.join(map(str, _OLDEST_SQLITE))} or newer is needed; use a newer Python.",
        )
    make_private_dir(path.parent)
    if path.is_dir():
        raise IsADirectoryError(21, "there is a directory of that name", str(path))
    os.close(open_private(path, os.O_RDWR))


def _open_writing(path: Path, world: World, steps: Sequence[SchemaStep]) -> sqlite3.Connection:
    with path.open("rb") as file:
        head = file.read(len(_MAGIC))
    if head and head != _MAGIC:
        raise _Damaged("it is not an SQLite file")
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=BUSY_MS / 1000)
    try:
        missing = _missing_steps(connection, path, steps)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA foreign_keys = ON")
        if head:
            _check(connection)
        _bring_up(connection, path, world, missing, keep_copy=len(missing) < len(steps))
    except sqlite3.DatabaseError as error:
        connection.close()
        if _primary_code(error) in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
            raise _Damaged(str(error)) from error
        raise
    except BaseException:
        connection.close()
        raise
    return connection


def _missing_steps(
    connection: sqlite3.Connection, path: Path, steps: Sequence[SchemaStep]
) -> Sequence[SchemaStep]:
    """The steps that this database has not had. Only reads: what is too new stays as it is."""
    recorded = connection.execute(
        "SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'schema_steps'"
    ).fetchone()
    had = {row[0] for row in connection.execute("SELECT name FROM schema_steps")} if recorded else set()
    unknown = had - {step.name for step in steps}
    if unknown:
        raise StoreTooNew(
            path,
            f"was written by a newer version (schema step {max(unknown)})",
            "Install that version or a newer one, or point HERMES_HOME to another directory.",
        )
    return [step for step in steps if step.name not in had]


def _check(connection: sqlite3.Connection) -> None:
    (verdict,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    if verdict != "ok":
        raise _Damaged(verdict)


def _bring_up(
    connection: sqlite3.Connection,
    path: Path,
    world: World,
    missing: Sequence[SchemaStep],
    *,
    keep_copy: bool,
) -> None:
    if missing and keep_copy:
        _keep_copy(connection, path.with_name(f"{path.name}.before-{missing[0].name}"))
    connection.execute(
        "CREATE TABLE IF NOT EXISTS schema_steps (name TEXT PRIMARY KEY, applied_at REAL NOT NULL) STRICT"
    )
    for step in missing:
        connection.execute("BEGIN IMMEDIATE")
        try:
            for statement in _statements(step.sql):
                connection.execute(statement)
            connection.execute("INSERT INTO schema_steps VALUES (?, ?)", (step.name, world.time()))
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise


def _statements(sql: str) -> Iterator[str]:
    """Split a step into its statements (`executescript` would commit behind our back)."""
    pending = ""
    for line in sql.splitlines(keepends=True):
        pending += line
        if sqlite3.complete_statement(pending):
            yield pending
            pending = ""


def _keep_copy(connection: sqlite3.Connection, copy: Path) -> None:
    unfinished = copy.with_name(copy.name + ".part")
    unfinished.unlink(missing_ok=True)
    os.close(open_private(unfinished, os.O_RDWR))
    target = sqlite3.connect(unfinished)
    try:
        connection.backup(target)
    finally:
        target.close()
    unfinished.replace(copy)


def _put_aside(path: Path, world: World) -> Path:
    aside = path.with_name(f"{path.name}.damaged-{world.now():%Y%m%dT%H%M%S}")
    number = 1
    while aside.exists():
        number += 1
        aside = path.with_name(f"{path.name}.damaged-{world.now():%Y%m%dT%H%M%S}-{number}")
    # The log goes along: without it the file that is kept could not be repaired by hand.
    for suffix in ("-wal", "-shm"):
        beside = path.with_name(path.name + suffix)
        if beside.exists():
            beside.replace(aside.with_name(aside.name + suffix))
    path.replace(aside)
    return aside


_BY_CODE: dict[int, tuple[type[StoreError], str, str]] = {
    sqlite3.SQLITE_FULL: (
        StoreFull,
        "the disk is full",
        "Free some space; what was acknowledged is safe and nothing else was stored.",
    ),
    sqlite3.SQLITE_READONLY: (
        StoreReadOnly,
        "cannot be written to",
        "Check the rights of the file and whether its disk is mounted read-only.",
    ),
    sqlite3.SQLITE_BUSY: (
        StoreBusy,
        "another process holds it",
        "Close the program that has it open; one gateway serves one home.",
    ),
    sqlite3.SQLITE_CANTOPEN: (
        StoreUnusable,
        "cannot be opened",
        "Check that the home is a directory that this account may write to.",
    ),
    sqlite3.SQLITE_IOERR: (
        StoreUnusable,
        "the disk fails",
        "Look into the system's log for errors of this disk.",
    ),
    sqlite3.SQLITE_CORRUPT: (
        StoreDamaged,
        "is damaged",
        "Restart the gateway: it keeps the damaged file aside and begins a fresh one.",
    ),
    sqlite3.SQLITE_NOTADB: (
        StoreDamaged,
        "is not a database any more",
        "Restart the gateway: it keeps the damaged file aside and begins a fresh one.",
    ),
}


def typed(error: BaseException, path: Path) -> BaseException:
    """The error of ours that stands for SQLite's, with SQLite's as its cause. What is a mistake of the
    caller (a constraint, a misspelt column) stays as it is."""
    known = _BY_CODE.get(_primary_code(error))
    if known is None:
        return error
    kind, problem, remedy = known
    ours = kind(path, f"{problem} ({error})", remedy)
    ours.__cause__ = error
    return ours


def _primary_code(error: BaseException) -> int:
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF
