"""PostgreSQL as the engine of the store.

A constraint that fails ends the whole transaction here, while SQLite undoes one statement. So a step that
suppresses such an error fails, alone, in `check`.

A connection that is lost is opened again, by the thread that needs it, which waits for the server. Whether
the transaction that lost it was committed is decided in `Database`, by the beat of the life.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TypeVar

import psycopg
from psycopg import errors
from psycopg.pq import TransactionStatus

from ...base.errors import StoreAway, StoreClosed, StoreUnusable
from ...base.world import World
from ...log import Log
from ..db.engine import Db
from ..db.migrations import SchemaStep
from .connection import PostgresConnection, Server
from .schema import bring_up_to_date
from .server_errors import as_store_error

T = TypeVar("T")

LONGEST_PAUSE = 1.0

log = Log(__name__)


def open_postgres(server: Server, world: World, steps: Sequence[SchemaStep]) -> PostgresEngine:
    """Open the tables of a database; create them or apply missing steps if needed."""
    with ExitStack() as unless_open:
        writing = server.connected()
        unless_open.callback(writing.close)
        try:
            bring_up_to_date(writing.link, server.schema, server.place, world, steps)
        except psycopg.Error as error:
            raise as_store_error(error, server.place)  # noqa: B904 - has its cause
        engine = PostgresEngine(server, writing, server.connected())
        unless_open.pop_all()
    return engine


class PostgresEngine:
    """The two connections to a server."""

    damaged_copy = None

    def __init__(self, server: Server, writing: PostgresConnection, reading: PostgresConnection) -> None:
        self._server, self._writing, self._reading = server, writing, reading
        self.path = server.place
        self._ends = threading.Event()
        writing.refuses_transactions = reading.refuses_transactions = True

    @property
    def writing(self) -> PostgresConnection:
        return self._writing

    def begin(self) -> None:
        self._writing.link.execute("BEGIN ISOLATION LEVEL READ COMMITTED")

    def check(self) -> None:
        if self._writing.link.info.transaction_status != TransactionStatus.INTRANS:
            raise errors.InFailedSqlTransaction("PostgreSQL failed, and the step suppressed the error")

    def commit(self) -> None:
        # Behind an error a COMMIT rolls back, and raises nothing.
        if self._writing.link.execute("COMMIT").statusmessage != "COMMIT":
            raise errors.TransactionRollback("PostgreSQL rolled back instead of committing")

    def rollback(self) -> None:
        if self._writing.link.info.transaction_status not in (
            TransactionStatus.IDLE,
            TransactionStatus.UNKNOWN,
        ):
            with suppress(psycopg.OperationalError):  # the connection is lost, and with it the transaction
                self._writing.link.execute("ROLLBACK")

    @property
    def is_lost(self) -> bool:
        return self._writing.is_lost

    def reconnect(self) -> None:
        self._writing = self._connected_again("writer")

    def read(self, query: Callable[[Db], T]) -> T:
        try:
            try:
                return self._read(query)
            except psycopg.OperationalError:
                if not self._reading.is_lost:
                    raise
            self._reading = self._connected_again("reader")
            return self._read(query)
        except psycopg.Error as error:
            if self._ends.is_set():
                remedy = "This is a bug: report it."
                raise StoreClosed(self.path, "was closed during a read", remedy) from error
            raise self.translated(error)  # noqa: B904 - has its cause

    def end_reads(self) -> None:
        self._ends.set()
        with suppress(psycopg.Error):  # the connection is lost, and with it the read
            self._reading.link.cancel_safe(timeout=1.0)

    def translated(self, error: BaseException) -> BaseException:
        return as_store_error(error, self.path)

    def repair(self, error: BaseException) -> bool:
        # One of the two that waited for each other was chosen, and has undone its transaction.
        return isinstance(error.__cause__ or error, errors.DeadlockDetected)

    def is_replaced(self) -> bool:
        return False

    def save(self, world: World) -> Path:
        raise StoreUnusable(self.path, "is on a server and cannot be copied", "Use pg_dump.")

    def close_reading(self) -> None:
        self._reading.close()

    def close_writing(self) -> None:
        self._writing.close()

    def _read(self, query: Callable[[Db], T]) -> T:
        link = self._reading.link
        link.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        try:
            return query(self._reading)
        finally:
            with suppress(psycopg.OperationalError):
                link.execute("ROLLBACK")

    def _connected_again(self, name: str) -> PostgresConnection:
        """Connect until the server answers. Raises `StoreAway` when the patience is over or the store is
        closed; the next statement tries again."""
        log.warning("connection to the database lost; connecting again", connection=name)
        for pause in _pauses(self._server.patience):
            try:
                connection = self._server.connected()
            except StoreAway:
                if self._ends.wait(pause):
                    break
            else:
                connection.refuses_transactions = True
                log.info("connected to the database again", connection=name)
                return connection
        return self._server.connected()


def _pauses(patience: float) -> Iterator[float]:
    """Yield the pauses between tries to connect. A network that swallows packets makes each try longer."""
    pause = 0.05
    while patience > 0:
        yield pause
        patience -= pause
        pause = min(2 * pause, LONGEST_PAUSE)
