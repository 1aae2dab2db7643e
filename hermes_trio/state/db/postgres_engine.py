"""PostgreSQL as the engine of the store, through psycopg (extra `postgres`).

No configuration chooses it yet: one gateway on one machine has SQLite. It exists so that every statement runs
on both engines.

A constraint that fails ends the whole transaction here, while SQLite undoes one statement. So a step that
suppresses such an error fails, alone, in `check`.

A lost connection is not opened again: from then on every operation raises `StoreUnusable`, and whether the
batch that lost it was committed is not known.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import psycopg
from psycopg import errors, sql
from psycopg.pq import TransactionStatus

from ...base.errors import (
    StoreBusy,
    StoreClosed,
    StoreError,
    StoreFull,
    StoreReadOnly,
    StoreUnusable,
)
from ...base.world import World
from .column_text import storable
from .engine import Db
from .migrations import SchemaStep
from .postgres_schema import bring_up_to_date

T = TypeVar("T")

_OF_TRANSACTION = re.compile(r"\s*(BEGIN|START|COMMIT|END|ABORT|PREPARE|ROLLBACK(?!\s+TO))\b", re.IGNORECASE)

_BY_ERROR: tuple[tuple[type[psycopg.Error], type[StoreError], str, str], ...] = (
    (errors.DiskFull, StoreFull, "the disk of the server is full", "Free some space there."),
    (
        errors.ReadOnlySqlTransaction,
        StoreReadOnly,
        "takes no writes",
        "Check whether the server is a standby.",
    ),
    (errors.LockNotAvailable, StoreBusy, "another process holds a lock", "Close the program that holds it."),
    (errors.QueryCanceled, StoreClosed, "was closed during a read", "This is a bug: report it."),
    (psycopg.OperationalError, StoreUnusable, "the server does not answer", "Check that it runs."),
)


class PostgresConnection:
    """A connection that runs statements of the subset."""

    def __init__(self, conninfo: str, schema: str) -> None:
        self.link = psycopg.connect(conninfo, autocommit=True)
        self.link.execute(sql.SQL("SET search_path = {}").format(sql.Identifier(schema)))
        self.refuses_transactions = False

    def execute(self, statement: str, parameters: Sequence[Any] = (), /) -> psycopg.Cursor[tuple[Any, ...]]:
        """Run one statement. Characters that no engine can store are replaced by `storable`."""
        if self.refuses_transactions and _OF_TRANSACTION.match(statement):
            raise errors.InvalidTransactionInitiation("a step cannot begin or end a transaction")
        values = [storable(one) if isinstance(one, str) else one for one in parameters]
        text, by_number = _translated(statement)
        if by_number:
            return self.link.execute(text, {str(number): one for number, one in enumerate(values, 1)})
        return self.link.execute(text, values)

    def close(self) -> None:
        self.link.close()


@functools.cache
def _translated(statement: str) -> tuple[bytes, bool]:
    """Return the statement with the placeholders of psycopg, and whether they have numbers."""
    escaped = statement.replace("%", "%%")
    numbered = re.sub(r"\?(\d+)", r"%(\1)s", escaped)
    return numbered.replace("?", "%s").encode(), numbered != escaped


def open_postgres(
    path: Path, world: World, steps: Sequence[SchemaStep], *, conninfo: str, schema: str
) -> PostgresEngine:
    """Open the tables in `schema` of a database; create them or apply missing steps if needed. `path` names
    the store in errors."""
    opened: list[PostgresConnection] = []
    try:
        opened.append(PostgresConnection(conninfo, schema))
        bring_up_to_date(opened[0].link, schema, path, world, steps)
        opened.append(PostgresConnection(conninfo, schema))
    except BaseException as error:  # whatever it is, nobody else closes what was opened
        for connection in opened:
            connection.close()
        if isinstance(error, psycopg.Error):
            raise _as_store_error(error, path)  # noqa: ASYNC104, B904 - a job of the worker; has its cause
        raise
    return PostgresEngine(path, *opened)


class PostgresEngine:
    """The two connections to a server."""

    damaged_copy = None

    def __init__(self, path: Path, writing: PostgresConnection, reading: PostgresConnection) -> None:
        self.writing = writing
        self._path, self._reading, self._reads_end = path, reading, False
        self.writing.refuses_transactions = self._reading.refuses_transactions = True

    def begin(self) -> None:
        self.writing.link.execute("BEGIN")

    def check(self) -> None:
        if self.writing.link.info.transaction_status != TransactionStatus.INTRANS:
            raise errors.InFailedSqlTransaction("PostgreSQL failed, and the step suppressed the error")

    def commit(self) -> None:
        # Behind an error a COMMIT rolls back, and raises nothing.
        if self.writing.link.execute("COMMIT").statusmessage != "COMMIT":
            raise errors.TransactionRollback("PostgreSQL rolled back instead of committing")

    def rollback(self) -> None:
        if self.writing.link.info.transaction_status not in (
            TransactionStatus.IDLE,
            TransactionStatus.UNKNOWN,
        ):
            with suppress(psycopg.OperationalError):  # the connection is lost, and with it the transaction
                self.writing.link.execute("ROLLBACK")

    def read(self, query: Callable[[Db], T]) -> T:
        link = self._reading.link
        try:
            link.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
            try:
                return query(self._reading)
            finally:
                with suppress(psycopg.OperationalError):
                    link.execute("ROLLBACK")
        except psycopg.Error as error:
            raise self.translated(error)  # noqa: B904 - has its cause

    def end_reads(self) -> None:
        self._reading.link.cancel_safe(timeout=1.0)

    def translated(self, error: BaseException) -> BaseException:
        return _as_store_error(error, self._path)

    def repair(self, error: BaseException) -> bool:
        return False

    def is_replaced(self) -> bool:
        return False

    def save(self, world: World) -> Path:
        raise StoreUnusable(self._path, "is on a server and cannot be copied", "Use pg_dump.")

    def close_reading(self) -> None:
        self._reading.close()

    def close_writing(self) -> None:
        self.writing.close()


def _as_store_error(error: BaseException, path: Path) -> BaseException:
    found = next((row for row in _BY_ERROR if isinstance(error, row[0])), None)
    if found is None:
        return error
    _, kind, problem, remedy = found
    ours = kind(path, f"{problem} ({error})", remedy)
    ours.__cause__ = error
    return ours
