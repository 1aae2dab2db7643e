"""A connection to a PostgreSQL server that runs statements of the subset."""

from __future__ import annotations

import functools
import itertools
import re
import threading
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import psycopg
from psycopg import errors
from psycopg.conninfo import conninfo_to_dict
from psycopg.pq import TransactionStatus
from psycopg.pq.abc import PGconn
from psycopg.waiting import Ready, Wait

from ...base.errors import StoreAway, StoreUnusable
from ...log import Log
from ..db.column_text import storable
from .server_errors import as_store_error

OLDEST_SERVER = 130000
CONNECT_WITHIN = 5
LONGEST_PAUSE = 1.0
MOST_UNSENT = 500
"""Statements that are kept in memory before they are sent."""

T = TypeVar("T")

log = Log(__name__)

_OF_TRANSACTION = re.compile(r"\s*(BEGIN|START|COMMIT|END|ABORT|PREPARE|ROLLBACK(?!\s+TO))\b", re.IGNORECASE)


def refused_address(url: str) -> str | None:
    """Return why libpq does not take an address; None if it does. The reason holds no password."""
    try:
        conninfo_to_dict(url)
    except psycopg.Error:
        return "libpq cannot read it"
    return None


@dataclass(frozen=True, slots=True)
class Server:
    """A database on a server, and the schema of the tables in it."""

    conninfo: str = field(repr=False)
    """An address or a list of parameters, as libpq takes it."""
    schema: str
    patience: float
    """Seconds for which a statement may take, and for which a lost server is waited for."""

    @property
    def place(self) -> Path:
        """The name of the database in errors, without the user and the password."""
        known = conninfo_to_dict(self.conninfo)
        host = Path(str(known.get("host") or known.get("hostaddr") or "a local socket")).name
        return Path(f"PostgreSQL database {known.get('dbname') or 'of the user'} on {host}")

    def connected(self) -> PostgresConnection:
        """Open a connection. Raises `StoreError`."""
        try:
            return PostgresConnection(psycopg.connect(**self._parameters(), autocommit=True), self)
        except psycopg.Error as error:
            raise as_store_error(error, self.place)  # noqa: B904 - has its cause

    def connected_again(self, name: str, ends: threading.Event) -> PostgresConnection:
        """Open a connection in place of a lost one, and wait for the server meanwhile. Raises `StoreAway`
        when the patience is over or the event is set; the next statement tries again."""
        log.warning("connection to the database lost; connecting again", connection=name)
        for pause in _pauses(self.patience):
            try:
                connection = self.connected()
            except StoreAway:
                if ends.wait(pause):
                    break
            else:
                log.info("connected to the database again", connection=name)
                return connection
        return self.connected()

    def _parameters(self) -> dict[str, Any]:
        """Return the parameters of a connection. A network that is cut is noticed within the patience; what
        the address says itself counts."""
        milliseconds = str(round(self.patience * 500))
        ours = {
            "application_name": "hermes-trio",
            "connect_timeout": CONNECT_WITHIN,
            "keepalives_idle": 5,
            "keepalives_interval": 2,
            "keepalives_count": 3,
            "tcp_user_timeout": milliseconds,
        }
        return {**ours, **conninfo_to_dict(self.conninfo)}


class PostgresConnection:
    """An open connection.

    A statement is sent when a result is read, together with all before it: a round trip to the server costs
    more than a statement does. So a mistake in one may be raised by a later one; the transaction has failed
    then, whoever suppresses it.
    """

    def __init__(self, link: psycopg.Connection[tuple[Any, ...]], server: Server) -> None:
        self.link = link
        self.refuses_transactions = False
        self.has_failed = False
        """True from an error to the end of its transaction."""
        self._unsent: list[PostgresRows] = []
        self._rollbacks = itertools.count()
        try:
            _check(link, server.place)
            # A process that was stopped between two statements must not hold its locks for longer.
            half, quarter = f"{server.patience * 500:.0f}ms", f"{server.patience * 250:.0f}ms"
            link.execute(
                "SELECT set_config('search_path', quote_ident(%s), false), "
                "set_config('statement_timeout', %s, false), "
                "set_config('idle_in_transaction_session_timeout', %s, false)",
                (server.schema, half, quarter),
            )
        except BaseException:  # nobody else knows the connection yet
            link.close()
            raise

    @property
    def is_lost(self) -> bool:
        """True once the server or the network has closed the connection."""
        return self.link.closed

    def execute(self, statement: str, parameters: Sequence[Any] = (), /) -> PostgresRows:
        """Run one statement. Characters that no engine can store are replaced by `storable`."""
        if self.refuses_transactions and _OF_TRANSACTION.match(statement):
            raise errors.InvalidTransactionInitiation("a step cannot begin or end a transaction")
        values = [storable(one) if isinstance(one, str) else one for one in parameters]
        text, by_number = _translated(statement)
        return self._queued(text, {str(n): one for n, one in enumerate(values, 1)} if by_number else values)

    def begin(self, characteristics: str) -> None:
        """Begin a transaction with its first statement."""
        self._queued(f"BEGIN {characteristics}".encode())

    def commit(self) -> str | None:
        """Commit, and return the answer of the server: behind an error it rolls back, and raises nothing."""
        answer = self._queued(b"COMMIT")
        self.send()
        return answer.status

    def rollback(self) -> None:
        """End the transaction, if one has begun, without its changes."""
        failed, self.has_failed, self._unsent = self.has_failed, False, []
        if failed or self.link.info.transaction_status not in (
            TransactionStatus.IDLE,
            TransactionStatus.UNKNOWN,
        ):
            # After a failure psycopg takes statements for prepared that are not. It forgets them with each
            # ROLLBACK whose text it has not seen before.
            self.link.execute(b"ROLLBACK -- %d" % next(self._rollbacks))

    def leave(self) -> None:
        """End a transaction that has only read. Its end is sent, and its answer not waited for."""
        if self.has_failed:
            with suppress(psycopg.OperationalError):  # the connection is lost, and with it the transaction
                self.rollback()
        self._unsent = []
        if self.link.info.transaction_status == TransactionStatus.INTRANS:
            self.link.pgconn.send_query(b"COMMIT")
            self.link.pgconn.flush()

    def send(self) -> None:
        """Send the statements that were not sent yet, and wait for their results, once."""
        unsent, self._unsent = self._unsent, []
        if self.has_failed:
            raise errors.InFailedSqlTransaction("an earlier statement of the transaction has failed")
        if not unsent:
            return
        try:
            self.link.wait(_left(self.link.pgconn))
            with self.link.pipeline():
                for rows in unsent:
                    rows.ran = self.link.execute(rows.text, rows.values)
        except BaseException:  # also Ctrl-C: the transaction must not be committed
            self.has_failed = True
            for rows in unsent:
                if rows.ran is not None and rows.ran.pgresult is None:  # itself failed, or came after
                    rows.ran = None
            raise

    def close(self) -> None:
        self.link.close()

    def _queued(self, text: bytes, values: Sequence[Any] | Mapping[str, Any] = ()) -> PostgresRows:
        if len(self._unsent) >= MOST_UNSENT:
            self.send()
        rows = PostgresRows(self, text, values)
        self._unsent.append(rows)
        return rows


class PostgresRows:
    """The result of a statement, which is sent when the result is first read."""

    __slots__ = ("_connection", "ran", "text", "values")

    def __init__(
        self, connection: PostgresConnection, text: bytes, values: Sequence[Any] | Mapping[str, Any]
    ) -> None:
        self._connection, self.text, self.values = connection, text, values
        self.ran: psycopg.Cursor[tuple[Any, ...]] | None = None

    @property
    def rowcount(self) -> int:
        return self._result.rowcount

    @property
    def description(self) -> Any:
        """The columns, as the Python database API has them."""
        return self._result.description

    @property
    def status(self) -> str | None:
        """The server's name for what it has done, such as `COMMIT`."""
        return self._result.statusmessage

    def fetchone(self) -> tuple[Any, ...] | None:
        return self._result.fetchone()

    def fetchall(self) -> list[tuple[Any, ...]]:
        return self._result.fetchall()

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        return iter(self._result)

    @property
    def _result(self) -> psycopg.Cursor[tuple[Any, ...]]:
        if self.ran is None:
            self._connection.send()
        assert self.ran is not None  # noqa: S101 - it was sent, or `send` has raised
        return self.ran


class KeptConnection:
    """A connection that is opened when it is first used, and again when it was lost. Several threads may use
    it, one after the other."""

    def __init__(self, server: Server, name: str, **settings: str) -> None:
        self._server, self._name, self._settings = server, name, settings
        self._ends, self._lock = threading.Event(), threading.Lock()
        self._connection: PostgresConnection | None = None

    def perform(self, job: Callable[[PostgresConnection], T]) -> T:
        """Return the result of a job. It is performed a second time if the connection was lost in it."""
        with self._lock:
            connection = self._connection
            if connection is not None and not connection.is_lost:
                try:
                    return _performed(connection, job)
                except psycopg.OperationalError:
                    if not connection.is_lost:
                        raise
            return _performed(self._opened(), job)

    def interrupt(self) -> None:
        """Wait for no server any more, and interrupt the running statement."""
        self._ends.set()
        if self._connection is not None:
            with suppress(psycopg.Error):  # it is lost, and its statement with it
                self._connection.link.cancel_safe(timeout=1.0)

    def close(self) -> None:
        self._ends.set()
        if self._connection is not None:
            self._connection.close()

    def _opened(self) -> PostgresConnection:
        if self._connection is None:
            connection = self._server.connected()
        else:
            connection = self._server.connected_again(self._name, self._ends)
        connection.refuses_transactions = True
        for name, value in self._settings.items():
            connection.execute("SELECT set_config(?, ?, FALSE)", (name, value))
        self._connection = connection
        return connection


def _left(connection: PGconn) -> Generator[Wait, Ready | int, None]:
    """Read the answer to the end of a transaction, if it was not waited for."""
    while connection.transaction_status == TransactionStatus.ACTIVE:
        while connection.is_busy():
            yield Wait.R
            connection.consume_input()
        connection.get_result()


def _performed(connection: PostgresConnection, job: Callable[[PostgresConnection], T]) -> T:
    try:
        result = job(connection)
        connection.send()
        return result
    finally:
        connection.leave()


def _pauses(patience: float) -> Iterator[float]:
    """Yield the pauses between tries to connect. A network that swallows packets makes each try longer."""
    pause = 0.05
    while patience > 0:
        yield pause
        patience -= pause
        pause = min(2 * pause, LONGEST_PAUSE)


def _check(link: psycopg.Connection[Any], place: Path) -> None:
    if link.info.server_version < OLDEST_SERVER:
        problem = f"the server has version {link.info.server_version // 10000}"
        raise StoreUnusable(place, problem, f"Version {OLDEST_SERVER // 10000} or newer is needed.")
    encoding = link.info.parameter_status("server_encoding")
    if encoding != "UTF8":
        remedy = "Create a database with `createdb --encoding=UTF8 --template=template0`."
        raise StoreUnusable(place, f"the database has the encoding {encoding}", remedy)


@functools.cache
def _translated(statement: str) -> tuple[bytes, bool]:
    """Return the statement with the placeholders of psycopg, and whether they have numbers."""
    escaped = statement.replace("%", "%%")
    numbered = re.sub(r"\?(\d+)", r"%(\1)s", escaped)
    return numbered.replace("?", "%s").encode(), numbered != escaped
