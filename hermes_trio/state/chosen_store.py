"""The store that a configuration chooses: the file `gateway.db` in the home, or PostgreSQL (`database.url`).

The code for a server, and psycopg, are loaded only where a server is configured.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from ..base.errors import ConfigInvalid, StoreUnusable
from ..base.extras import install_command
from ..config.database_section import DatabaseConfig
from .db.engine import Db
from .db.opening import connect_reading
from .db.sqlite_errors import as_store_error

if TYPE_CHECKING:
    from .db.database import OpenEngine
    from .postgres.connection import Server

DATABASE = "gateway.db"

NEVER_STARTED = "Start with `hermes-trio chat` or `hermes-trio run`."


def engine_of(config: DatabaseConfig) -> OpenEngine:
    """Return what opens the store. Raises `ConfigInvalid` if a package for it is missing."""
    # Imported here, because commands that only read need neither.
    server = server_of(config)
    if server is None:
        from .db.sqlite_engine import open_sqlite

        return open_sqlite
    from .postgres.engine import open_postgres

    return lambda _, world, steps: open_postgres(server, world, steps)


def server_of(config: DatabaseConfig) -> Server | None:
    """Return the configured server; None for a file in the home. Raises `ConfigInvalid` if psycopg is
    missing or cannot read the address."""
    if config.url is None:
        return None
    try:
        from .postgres.connection import Server, refused_address
    except ImportError as error:
        problem = f"PostgreSQL needs the package psycopg, which cannot be loaded ({error})"
        raise ConfigInvalid("database.url", problem, f"Run `{install_command('postgres')}`.") from error
    if reason := refused_address(config.url):
        remedy = "Write it as postgresql://user:password@host/database, with %40 for an @ in the password."
        raise ConfigInvalid("database.url", f"it is no address of a database ({reason})", remedy)
    return Server(config.url, config.schema, config.lease)


def has_store(home: Path, config: DatabaseConfig) -> bool:
    """Return whether there is a store to look into. A server is taken to have one."""
    return config.url is not None or (home / DATABASE).exists()


@contextmanager
def reading_store(home: Path, config: DatabaseConfig) -> Iterator[Db]:
    """Open the store of a home in one transaction that only reads; for another process than the gateway.
    Raises `StoreError`."""
    server = server_of(config)
    if server is not None:
        from .postgres.single_transaction import transaction

        with transaction(server) as db:
            yield db
        return
    path = home / DATABASE
    if not path.exists():
        raise StoreUnusable(path, "does not exist, so there are no messages yet", NEVER_STARTED)
    try:
        with closing(connect_reading(path)) as connection:
            connection.execute("BEGIN")
            yield connection
    except sqlite3.Error as error:
        ours = as_store_error(error, path)
        if ours is not error:
            raise ours from error
        problem = f"cannot be read ({error})"
        raise StoreUnusable(path, problem, "Start the gateway once: it updates the file.") from error
