"""Hints on a PostgreSQL server that work waits: NOTIFY, in the transaction that stores the work.

A trigger gives them (`schema`), whoever stores the row. A hint is never the truth: it may be lost with the
connection, and the owner of a chat also looks from time to time.
"""

from __future__ import annotations

from psycopg import OperationalError, sql

from .connection import PostgresConnection, Server
from .server_errors import as_store_error

EVERYBODY = "hermes_chats"
"""The channel of hints about chats that were given away or are nobody's."""


def life_channel(life: str) -> str:
    """Return the channel of hints for a life."""
    return f"hermes_life_{life}"


def open_hints(server: Server, life: str) -> Hints:
    """Open a connection that hears the hints for a life. Blocks. Raises `StoreError`."""
    connection = server.connected()
    try:
        for channel in (life_channel(life), EVERYBODY):
            connection.link.execute(sql.SQL("LISTEN {}").format(sql.Identifier(channel)))
    except BaseException:  # nobody else knows the connection yet
        connection.close()
        raise
    return Hints(connection, server)


class Hints:
    """A connection on which a server tells that work waits."""

    def __init__(self, connection: PostgresConnection, server: Server) -> None:
        self._connection, self._server = connection, server

    def fileno(self) -> int:
        return self._connection.link.fileno()

    def heard(self) -> bool:
        pgconn = self._connection.link.pgconn
        try:
            pgconn.consume_input()
        except OperationalError as error:
            raise as_store_error(error, self._server.place)  # noqa: B904 - has its cause
        heard = False
        while pgconn.notifies() is not None:
            heard = True
        return heard

    def close(self) -> None:
        self._connection.close()
