"""Shared by the tests of the database: a small schema, and views from outside."""

from __future__ import annotations

import re
import sqlite3
import subprocess
import sys
import threading
from contextlib import AbstractContextManager, closing, suppress
from pathlib import Path

import psycopg
import pytest

from hermes_trio.state.db.engine import Db
from hermes_trio.state.db.migrations import SchemaStep
from hermes_trio.state.db.opening import connect_reading

GUESTS = SchemaStep(
    "0001_guests", "CREATE TABLE guests (place INTEGER PRIMARY KEY, name TEXT UNIQUE) STRICT;"
)


def enter(db: Db, name: str) -> str:
    """Add a guest; names are unique."""
    db.execute("INSERT INTO guests (name) VALUES (?)", (name,))
    return name


def guests(db: Db) -> list[str]:
    """Return the guests in order of insertion."""
    return [name for (name,) in db.execute("SELECT name FROM guests ORDER BY place")]


def seen_from_outside(path: Path) -> list[str]:
    """Return the guests as another program sees them: only committed ones."""
    with closing(connect_reading(path)) as connection:
        return guests(connection)


def traced(db: Db, statements: list[str]) -> None:
    """Record the statements of the connection from now on; a step of the database."""
    assert isinstance(db, sqlite3.Connection)
    db.set_trace_callback(statements.append)


def allow_transactions(db: Db) -> None:
    """Let a test begin and end transactions, as the owner of the connection does."""
    if isinstance(db, sqlite3.Connection):
        db.set_authorizer(None)
    else:
        db.refuses_transactions = False  # type: ignore[attr-defined]


def refused(constraint: str = "") -> AbstractContextManager[object]:
    """Expect that the database refuses a row, because of a `UNIQUE`, `CHECK` or `FOREIGN KEY` constraint."""
    theirs = (sqlite3.IntegrityError, psycopg.IntegrityError, psycopg.DataError)
    return pytest.raises(theirs, match=re.compile(constraint, re.IGNORECASE))


def check_by_engine(db: Db) -> None:
    """Let SQLite check that the search index and the references match the rows. PostgreSQL has no such check:
    its index and its references cannot differ from the rows."""
    if isinstance(db, sqlite3.Connection):
        db.execute("INSERT INTO messages_text (messages_text, rank) VALUES ('integrity-check', 1)")
        assert db.execute("PRAGMA foreign_key_check").fetchall() == []


def commits(statements: list[str]) -> int:
    return sum(statement.startswith("COMMIT") for statement in statements)


def open_files(path: Path) -> list[str]:
    """Return the database files that this process has open; skip the test where the system cannot tell."""
    fds = Path("/proc/self/fd")
    if not fds.is_dir():
        pytest.skip("this system does not list open files")
    targets = []
    for fd in list(fds.iterdir()):
        with suppress(FileNotFoundError):  # the descriptor of the listing itself
            targets.append(fd.readlink())
    return sorted(target.name for target in targets if target.parent == path.parent)


def store_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith("store-")]


def killed_after(path: Path, *names: str) -> None:
    """Let a process add these guests and kill it, so that they are only in the database's log."""
    write = (
        "import os, pathlib, sys; from hermes_trio.state.db.opening import open_connections;"
        "from hermes_trio.base.world import World; from tests.state.seams import GUESTS, enter;"
        "db = open_connections(pathlib.Path(sys.argv[1]), World(), [GUESTS]).writing;"
        "[enter(db, name) for name in sys.argv[2:]]; os.kill(os.getpid(), 9)"
    )
    killed = subprocess.run(
        [sys.executable, "-c", write, path, *names], check=False, cwd=Path(__file__).parents[2]
    )
    assert killed.returncode == -9
    assert path.with_name(path.name + "-wal").stat().st_size > 0
