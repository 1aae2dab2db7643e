"""What SQLite complains of, as errors that say what to do."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from ...base.errors import StoreBusy, StoreDamaged, StoreError, StoreFull, StoreReadOnly, StoreUnusable

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
    sqlite3.SQLITE_CORRUPT_VTAB: (
        StoreDamaged,
        "has a damaged search index",
        "Restart the gateway: it makes the index again, once in each of its lives.",
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
    code = code_of(error)
    known = _BY_CODE.get(code) or _BY_CODE.get(code & 0xFF)
    if known is None:
        return error
    kind, problem, remedy = known
    ours = kind(path, f"{problem} ({error})", remedy)
    ours.__cause__ = error
    return ours


def damages_search(error: BaseException) -> bool:
    """Whether SQLite says that of its search index, which can be made again, and not of the rows."""
    return code_of(error) == sqlite3.SQLITE_CORRUPT_VTAB


def code_of(error: BaseException) -> int:
    """SQLite's number of what went wrong; 0 if it is not SQLite's."""
    return int(getattr(error, "sqlite_errorcode", 0))
