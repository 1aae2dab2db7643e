"""PostgreSQL as the engine of the store.

A constraint that fails ends the whole transaction here, while SQLite undoes one statement. So a step that
suppresses such an error fails, alone, in `check`.

A connection that is lost is opened again, by the thread that needs it, which waits for the server. Whether
the transaction that lost it was committed is decided in `Database`, by the beat of the life.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TypeVar

import psycopg
from psycopg import errors

from ...base.errors import StoreClosed, StoreUnusable
from ...base.world import World
from ..db.engine import Db
from ..db.migrations import SchemaStep
from .connection import KeptConnection, PostgresConnection, Server
from .hints import Hints, open_hints
from .schema import bring_up_to_date
from .server_errors import as_store_error

T = TypeVar("T")


def open_postgres(server: Server, world: World, steps: Sequence[SchemaStep]) -> PostgresEngine:
    """Open the tables of a database; create them or apply missing steps if needed."""
    with ExitStack() as unless_open:
        writing = server.connected()
        unless_open.callback(writing.close)
        try:
            bring_up_to_date(writing.link, server.schema, server.place, world, steps)
        except psycopg.Error as error:
            raise as_store_error(error, server.place)  # noqa: B904 - has its cause
        unless_open.pop_all()
    return PostgresEngine(server, writing)


class PostgresEngine:
    """The two connections to a server."""

    damaged_copy = None
    is_remote = True

    def __init__(self, server: Server, writing: PostgresConnection) -> None:
        self._server, self._writing = server, writing
        self._reading = KeptConnection(server, "reader")
        self.path = server.place
        self._ends = threading.Event()
        writing.refuses_transactions = True

    @property
    def writing(self) -> PostgresConnection:
        return self._writing

    def begin(self) -> None:
        self._writing.begin("ISOLATION LEVEL READ COMMITTED")

    def check(self) -> None:
        if self._writing.has_failed:
            raise errors.InFailedSqlTransaction("PostgreSQL failed, and the step suppressed the error")

    def commit(self) -> None:
        if self._writing.commit() != "COMMIT":
            raise errors.TransactionRollback("PostgreSQL rolled back instead of committing")

    def rollback(self) -> None:
        with suppress(psycopg.OperationalError):  # the connection is lost, and with it the transaction
            self._writing.rollback()

    @property
    def is_lost(self) -> bool:
        return self._writing.is_lost

    def reconnect(self) -> None:
        self._writing = self._server.connected_again("writer", self._ends)
        self._writing.refuses_transactions = True

    def read(self, query: Callable[[Db], T]) -> T:
        try:
            return self._reading.perform(lambda connection: _read(connection, query))
        except psycopg.Error as error:
            if self._ends.is_set():
                remedy = "This is a bug: report it."
                raise StoreClosed(self.path, "was closed during a read", remedy) from error
            raise self.translated(error)  # noqa: B904 - has its cause

    def listen(self, life: str) -> Hints:
        return open_hints(self._server, life)

    def end_reads(self) -> None:
        self._ends.set()
        self._reading.interrupt()

    def translated(self, error: BaseException) -> BaseException:
        return as_store_error(error, self.path)

    def repair(self, error: BaseException) -> bool:
        # One of the two that waited for each other was chosen, and has undone its transaction.
        return isinstance(error.__cause__ or error, errors.DeadlockDetected)

    def count_ids_on(self) -> None:
        columns = self._writing.execute(
            "SELECT table_name, column_name FROM information_schema.columns "
            "WHERE table_schema = current_schema() AND is_identity = 'YES'"
        )
        for table, column in columns.fetchall():
            self._writing.execute(
                f"SELECT setval(pg_get_serial_sequence(?, ?), coalesce(max({column}), 0) + 1, FALSE) "  # noqa: S608
                f"FROM {table}",
                (table, column),
            )
        self._writing.send()

    def is_replaced(self) -> bool:
        return False

    def save(self, world: World) -> Path:
        raise StoreUnusable(self.path, "is on a server and cannot be copied", "Use pg_dump.")

    def close_reading(self) -> None:
        self._reading.close()

    def close_writing(self) -> None:
        self._writing.close()


def _read(connection: PostgresConnection, query: Callable[[Db], T]) -> T:
    """Return the result of a query on one snapshot."""
    connection.begin("ISOLATION LEVEL REPEATABLE READ READ ONLY")
    return query(connection)
