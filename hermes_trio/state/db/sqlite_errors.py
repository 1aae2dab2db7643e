"""SQLite's errors, translated to errors with a remedy."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from ...base.errors import (
    StoreBusy,
    StoreClosed,
    StoreDamaged,
    StoreError,
    StoreFull,
    StoreReadOnly,
    StoreUnusable,
)

_BY_CODE: dict[int, tuple[type[StoreError], str, str]] = {
    sqlite3.SQLITE_FULL: (
        StoreFull,
        "the disk is full",
        "Free some space; acknowledged data is safe, and nothing else was stored.",
    ),
    sqlite3.SQLITE_INTERRUPT: (
        StoreClosed,
        "was closed during a read",
        "This is a bug: report it.",
    ),
    sqlite3.SQLITE_READONLY: (
        StoreReadOnly,
        "cannot be written to",
        "Check the permissions of the file and whether its disk is mounted read-only.",
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
        "Check the system log for errors of this disk.",
    ),
    sqlite3.SQLITE_CORRUPT_VTAB: (
        StoreDamaged,
        "has a damaged search index",
        "Restart the gateway: it rebuilds the index, once after each start.",
    ),
    sqlite3.SQLITE_CORRUPT: (
        StoreDamaged,
        "is damaged",
        "Restart the gateway: it sets the damaged file aside and creates a new one.",
    ),
    sqlite3.SQLITE_NOTADB: (
        StoreDamaged,
        "is not a database any more",
        "Restart the gateway: it sets the damaged file aside and creates a new one.",
    ),
}


def as_store_error(error: BaseException, path: Path) -> BaseException:
    """Return the `StoreError` for an error of SQLite, with that error as its cause. A mistake of the caller
    (a constraint, a misspelt column) is returned unchanged."""
    code = code_of(error)
    known = _BY_CODE.get(code) or _BY_CODE.get(code & 0xFF)
    if known is None:
        return error
    kind, problem, remedy = known
    ours = kind(path, f"{problem} ({error})", remedy)
    ours.__cause__ = error
    return ours


def code_of(error: BaseException) -> int:
    """Return SQLite's error code; 0 for an error that is not SQLite's."""
    return int(getattr(error, "sqlite_errorcode", 0))
