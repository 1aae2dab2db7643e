"""Opening `gateway.db`: what may be there, and what is done about it.

| what is there | what is done |
|---|---|
| nothing, or an empty file | made, 0600 in a directory that is 0700, and brought to the newest schema |
| an older schema | a copy is kept beside it, then the missing steps are applied in order |
| a step we do not know | refused and left untouched: a newer version wrote it |
| tables, and no record of our steps | refused and left untouched: another program's |
| not SQLite, or damaged | put aside as `gateway.db.damaged-<time>` (with its log) and a fresh one begun |
| a log without its file | the same: what was acknowledged may stand in the log alone |
| a directory, no permission, another process's lock | refused with the remedy |

Whatever is there is first looked at through the connection that cannot write. It is also the last one to
be closed when opening fails: the last one that can write would put the log into the file, and what we
refuse or put aside is to stay as it was.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from pathlib import Path

from ...base.errors import StoreUnusable
from ...base.world import World
from ...host.files.private_files import PRIVATE_FILE, is_read_only, make_private_dir, open_private
from ...log import Log
from .damaged import LOGS
from .file_identity import FileIdentity
from .migrations import SchemaStep, bring_up, missing_steps
from .sqlite_errors import code_of, typed

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


class _Damaged(Exception):
    """What is at the path is not a database that can be read."""


def open_connections(path: Path, world: World, steps: Sequence[SchemaStep]) -> Connections:
    """Open what is at `path`, in the way the table above says."""
    try:
        try:
            return _open(path, world, steps)
        except _Damaged as damage:
            damaged_copy = _put_aside(path, world)
            log.error(
                "the database was damaged; put it aside and began a fresh one",
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
        raise typed(error, path)  # noqa: B904 - has its cause


def connect_reading(path: Path) -> sqlite3.Connection:
    """A connection that sees what is committed and cannot write; also for another process."""
    # On a read-only disk the files beside a database that its readers share cannot be made. Without a log all
    # of it is in the file, and nobody changes that.
    alone = path.exists() and is_read_only(path) and not path.with_name(f"{path.name}-wal").exists()
    try:
        connection = _connect(f"{path.absolute().as_uri()}?mode=ro{'&immutable=1' if alone else ''}")
        connection.execute("PRAGMA query_only = ON")
    except sqlite3.Error as error:
        raise typed(error, path)  # noqa: B904 - has its cause
    return connection


def _connect(where: Path | str) -> sqlite3.Connection:
    connection = sqlite3.connect(
        where,
        uri=isinstance(where, str),
        isolation_level=None,
        check_same_thread=False,
        timeout=BUSY_MS / 1000,
    )
    connection.text_factory = _text
    return connection


def _text(raw: bytes) -> str:
    # A byte that went bad on the disk costs one character, not every list its row is in.
    return raw.decode("utf-8", "replace")


def _open(path: Path, world: World, steps: Sequence[SchemaStep]) -> Connections:
    _prepare_file(path)
    with ExitStack() as unless_open:
        try:
            reading = unless_open.enter_context(closing(connect_reading(path)))
            missing = _look(reading, path, steps)
            writing = unless_open.enter_context(closing(_connect(path)))
            writing.execute("PRAGMA journal_mode = WAL")
            writing.execute("PRAGMA synchronous = FULL")
            # A reader that stays for long lets the log grow. It is cut back when it is used again.
            writing.execute(f"PRAGMA journal_size_limit = {LARGEST_LOG}")
            writing.execute("PRAGMA foreign_keys = ON")
            bring_up(writing, path, world, missing, keep_copy=len(missing) < len(steps))
        except sqlite3.DatabaseError as error:
            if code_of(error) & 0xFF in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
                raise _Damaged(str(error)) from error
            raise
        unless_open.pop_all()
        return Connections(writing, reading, None, FileIdentity(path))


def _prepare_file(path: Path) -> None:
    """See to it that there is a file, and that only its owner may read it and its log."""
    if sqlite3.sqlite_version_info < _OLDEST_SQLITE:
        raise StoreUnusable(
            path,
            f"this Python has SQLite {sqlite3.sqlite_version}",
            f"SQLite {'.'.join(map(str, _OLDEST_SQLITE))} or newer is needed; use a newer Python.",
        )
    make_private_dir(path.parent)
    if path.exists() and not path.is_file():
        raise OSError(21, "there is something of that name that is no file", str(path))
    with open(open_private(path, os.O_RDWR), "rb") as file:
        head = file.read(len(_MAGIC))
    if head and head != _MAGIC:
        raise _Damaged("it is not an SQLite file")
    for log_file in _logs(path):
        log_file.chmod(PRIVATE_FILE)
        if log_file.name.endswith("-wal") and log_file.stat().st_size and not head:
            raise _Damaged("its log is there, and the file itself is empty")


def _logs(path: Path) -> list[Path]:
    beside = (path.with_name(path.name + suffix) for suffix in LOGS)
    return [log_file for log_file in beside if log_file.exists()]


def _look(reading: sqlite3.Connection, path: Path, steps: Sequence[SchemaStep]) -> Sequence[SchemaStep]:
    """What is missing from the database that is there, which is sound and ours."""
    try:
        _undo_what_was_cut(reading, path)
        missing = missing_steps(reading, path, steps)
        (verdict,) = reading.execute("PRAGMA quick_check(1)").fetchone()
    except UnicodeDecodeError as error:  # the sentence in which SQLite complains quotes what it found
        raise _Damaged("its schema cannot be read") from error
    except sqlite3.OperationalError as error:
        if code_of(error) == sqlite3.SQLITE_ERROR:  # a form that it does not know, columns that are not there
            raise _Damaged(str(error)) from error
        raise
    # Newer SQLites look at the search index too, after all else. That is made again when it is used.
    if verdict != "ok" and "FTS5" not in verdict:
        raise _Damaged(verdict)
    return missing


def _undo_what_was_cut(reading: sqlite3.Connection, path: Path) -> None:
    """Before a database has its `-wal`, a kill leaves another kind of log, which only a connection that
    can write plays back."""
    try:
        reading.execute("SELECT 1 FROM sqlite_schema").fetchone()
    except sqlite3.OperationalError as error:
        if code_of(error) != sqlite3.SQLITE_READONLY_ROLLBACK:
            raise
        with closing(_connect(path)) as connection:
            connection.execute("SELECT 1 FROM sqlite_schema").fetchone()


def _put_aside(path: Path, world: World) -> Path:
    aside = path.with_name(f"{path.name}.damaged-{world.now():%Y%m%dT%H%M%S}")
    number = 1
    while aside.exists():
        number += 1
        aside = path.with_name(f"{path.name}.damaged-{world.now():%Y%m%dT%H%M%S}-{number}")
    logs = _logs(path)
    path.replace(aside)
    # The log goes along: without it the file that is kept could not be mended by hand. It goes last: a
    # log without its file is known for what it is, if we are killed in between.
    for log_file in logs:
        log_file.replace(aside.with_name(aside.name + log_file.name.removeprefix(path.name)))
    return aside
