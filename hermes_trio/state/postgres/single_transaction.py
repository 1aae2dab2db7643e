"""One transaction of another process than the gateway: a command that reads, or decides something."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager

import psycopg
from psycopg import errors

from ...base.errors import StoreUnusable
from ..db.engine import Db
from .connection import Server
from .server_errors import as_store_error

_BEGIN = {
    True: "ISOLATION LEVEL READ COMMITTED READ WRITE",
    False: "ISOLATION LEVEL REPEATABLE READ READ ONLY",
}


@contextmanager
def transaction(server: Server, *, writes: bool = False) -> Iterator[Db]:
    """Open a connection and a transaction on it, which is committed when the block ends and undone if the
    block raises. Raises `StoreError`."""
    with closing(server.connected()) as connection:
        try:
            connection.begin(_BEGIN[writes])
            yield connection
            connection.commit()
        except (errors.UndefinedTable, errors.UndefinedColumn) as error:
            problem = f"schema {server.schema} is not that of this version"
            remedy = "Start the gateway once with this version: it makes its tables."
            raise StoreUnusable(server.place, problem, remedy) from error
        except psycopg.Error as error:
            raise as_store_error(error, server.place)  # noqa: B904 - has its cause
