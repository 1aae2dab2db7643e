"""Opening `gateway.db`, whatever is at its path.

| at the path | action |
|---|---|
| nothing, or an empty file | created with mode 0600 in a 0700 directory, and brought to the newest schema |
| an older schema | a copy is kept beside it, then the missing steps are applied in order |
| an unknown schema step | refused and left untouched: a newer version wrote it |
| tables without a record of our steps | refused and left untouched: another program's database |
| not SQLite, or damaged | set aside as `gateway.db.damaged-<time>` (with its log), and a new one created |
| a log without its file | the same: acknowledged data may be in the log alone |
| a directory, no permission, another process's lock | refused with a remedy |

The file is first inspected through the connection that cannot write. That connection is also closed last
when opening fails: if the last one could write, SQLite would merge the log into the file, and a refused or
damaged database must stay as it was.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ...base.errors import StoreUnusable
from ...base.world import World
from ...host.files.private_files import PRIVATE_FILE, is_read_only, make_private_dir, open_private
from ...log import Log
from .column_text import storable
from .damaged import LOGS
from .file_identity import FileIdentity
from .migrations import SchemaStep, apply_steps, missing_steps
from .sqlite_errors import as_store_error, code_of

BUSY_MS = 2000
LARGEST_LOG = 16 << 20
_OLDEST_SQLITE = (3, 37, 0)  # STRICT tables
_MAGIC = b"SQLite format 3\0"

log = Log(__name__)


@dataclass(frozen=True, slots=True)
class Connections:
    """The two connections of an open store."""

    writing: sqlite3.Connection
    reading: sqlite3.Connection
    damaged_copy: Path | None
    files: FileIdentity


class TextConnection(sqlite3.Connection):
    """A connection that stores any text: characters that not every engine can store are replaced by
    `storable`."""

    def execute(self, sql: str, parameters: Any = (), /) -> sqlite3.Cursor:
        for one in parameters:
            if type(one) is str and "\0" in one:
                parameters = _storable(parameters)
                break
        try:
            return super().execute(sql, parameters)
        except UnicodeEncodeError:  # rare, so the texts are only looked at then
            return super().execute(sql, _storable(parameters))


def _storable(parameters: Sequence[Any]) -> list[Any]:
    return [storable(one) if isinstance(one, str) else one for one in parameters]


class _Damage(Exception):
    """The file at the path is not a readable database."""


def open_connections(path: Path, world: World, steps: Sequence[SchemaStep]) -> Connections:
    """Open the database at `path` as in the table above. Blocks. Raises `StoreError`."""
    try:
        try:
            return _open(path, world, steps)
        except _Damage as damage:
            damaged_copy = _set_aside(path, world)
            log.error(
                "database damaged; set aside and a new one created",
                damaged=damaged_copy.name,
                reason=str(damage),
            )
        return replace(_open(path, world, steps), damaged_copy=damaged_copy)
    except OSError as error:
        raise StoreUnusable(
            path,
            f"cannot be opened ({error.strerror or error})",
            "Check that the home is a directory that this account may write to.",
        ) from error
    except sqlite3.Error as error:
        raise as_store_error(error, path)  # noqa: B904 - has its cause


def connect_reading(path: Path) -> sqlite3.Connection:
    """Return a connection that sees committed data and cannot write; also for use from another process."""
    # On a read-only disk SQLite cannot create the files that readers share. Without a log the file is
    # complete and nobody changes it, so it can be opened as immutable.
    alone = path.exists() and is_read_only(path) and not path.with_name(f"{path.name}-wal").exists()
    try:
        connection = _connect(f"{path.absolute().as_uri()}?mode=ro{'&immutable=1' if alone else ''}")
        connection.execute("PRAGMA query_only = ON")
    except sqlite3.Error as error:
        raise as_store_error(error, path)  # noqa: B904 - has its cause
    return connection


def _connect(where: Path | str) -> sqlite3.Connection:
    connection = sqlite3.connect(
        where,
        uri=isinstance(where, str),
        isolation_level=None,
        check_same_thread=False,
        timeout=BUSY_MS / 1000,
        factory=TextConnection,
    )
    connection.text_factory = _text
    return connection


def _text(raw: bytes) -> str:
    # A bad byte on the disk costs one character, not every query that returns its row.
    return raw.decode("utf-8", "replace")


def _open(path: Path, world: World, steps: Sequence[SchemaStep]) -> Connections:
    _prepare_file(path)
    with ExitStack() as unless_open:
        try:
            reading = unless_open.enter_context(closing(connect_reading(path)))
            missing = _check(reading, path, steps)
            writing = unless_open.enter_context(closing(_connect(path)))
            writing.execute("PRAGMA journal_mode = WAL")
            writing.execute("PRAGMA synchronous = FULL")
            # A long-running reader lets the log grow. SQLite truncates it at the next checkpoint.
            writing.execute(f"PRAGMA journal_size_limit = {LARGEST_LOG}")
            writing.execute("PRAGMA foreign_keys = ON")
            apply_steps(writing, path, world, missing, keep_copy=len(missing) < len(steps))
        except sqlite3.DatabaseError as error:
            if code_of(error) & 0xFF in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
                raise _Damage(str(error)) from error
            raise
        unless_open.pop_all()
        return Connections(writing, reading, None, FileIdentity(path))


def _prepare_file(path: Path) -> None:
    """Create the file if it is missing, and let only its owner read it and its log."""
    if sqlite3.sqlite_version_info < _OLDEST_SQLITE:
        raise StoreUnusable(
            path,
            f"this Python has SQLite {sqlite3.sqlite_version}",
            f"SQLite {'.'.join(map(str, _OLDEST_SQLITE))} or newer is needed; use a newer Python.",
        )
    make_private_dir(path.parent)
    if path.exists() and not path.is_file():
        raise OSError(21, "not a regular file", str(path))
    with open(open_private(path, os.O_RDWR), "rb") as file:
        head = file.read(len(_MAGIC))
    if head and head != _MAGIC:
        raise _Damage("not an SQLite file")
    for log_file in _logs(path):
        log_file.chmod(PRIVATE_FILE)
        if log_file.name.endswith("-wal") and log_file.stat().st_size and not head:
            raise _Damage("empty, although its log is not")


def _logs(path: Path) -> list[Path]:
    beside = (path.with_name(path.name + suffix) for suffix in LOGS)
    return [log_file for log_file in beside if log_file.exists()]


def _check(reading: sqlite3.Connection, path: Path, steps: Sequence[SchemaStep]) -> Sequence[SchemaStep]:
    """Check that the database is sound and ours, and return the schema steps it lacks."""
    try:
        _play_back_rollback_log(reading, path)
        missing = missing_steps(reading, path, steps)
        (verdict,) = reading.execute("PRAGMA quick_check(1)").fetchone()
    except UnicodeDecodeError as error:  # SQLite's error message quotes the damaged bytes
        raise _Damage("schema not readable") from error
    except sqlite3.OperationalError as error:
        if code_of(error) == sqlite3.SQLITE_ERROR:  # an unknown file format, or missing columns
            raise _Damage(str(error)) from error
        raise
    # Newer versions of SQLite also check the search index, as the last part. It is rebuilt when it is used.
    if verdict != "ok" and "FTS5" not in verdict:
        raise _Damage(verdict)
    return missing


def _play_back_rollback_log(reading: sqlite3.Connection, path: Path) -> None:
    """Play back the rollback log that a kill leaves while the database has no `-wal` yet. Only a connection
    that can write does so."""
    try:
        reading.execute("SELECT 1 FROM sqlite_schema").fetchone()
    except sqlite3.OperationalError as error:
        if code_of(error) != sqlite3.SQLITE_READONLY_ROLLBACK:
            raise
        with closing(_connect(path)) as connection:
            connection.execute("SELECT 1 FROM sqlite_schema").fetchone()


def _set_aside(path: Path, world: World) -> Path:
    aside = path.with_name(f"{path.name}.damaged-{world.now():%Y%m%dT%H%M%S}")
    number = 1
    while aside.exists():
        number += 1
        aside = path.with_name(f"{path.name}.damaged-{world.now():%Y%m%dT%H%M%S}-{number}")
    logs = _logs(path)
    path.replace(aside)
    # The log is needed to repair the file by hand. It is moved last: if we are killed in between, a log
    # without its file is recognised at the next start.
    for log_file in logs:
        log_file.replace(aside.with_name(aside.name + log_file.name.removeprefix(path.name)))
    return aside
