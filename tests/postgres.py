"""A PostgreSQL server for tests, and the store on it."""

from __future__ import annotations

import hashlib
import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest

from hermes_trio.base.world import World
from hermes_trio.state.db.database import OpenEngine
from hermes_trio.state.db.engine import Db, Engine
from hermes_trio.state.db.migrations import SchemaStep
from hermes_trio.state.postgres.connection import PostgresConnection, PostgresRows, Server
from hermes_trio.state.postgres.engine import open_postgres

DURABLE = "-c listen_addresses=''"
# Nothing of a test has to survive a crash of the machine; each commit survives one of the server.
QUICK = f"{DURABLE} -c fsync=off -c full_page_writes=off"


# Waits for the end of its input, which comes also when the process of the tests is killed.
KEEPER = 'read _; "$1/pg_ctl" stop -D "$2/data" -m immediate; rm -rf "$2"'

PATIENCE = 30.0


@dataclass(frozen=True)
class PostgresServer:
    """A server of the tests, in a directory of its own."""

    directory: Path
    programs: Path
    account: pwd.struct_passwd | None
    """The account that it runs as; None for this one."""
    settings: str = QUICK

    @property
    def conninfo(self) -> str:
        return f"host={self.directory} user=tests dbname=postgres"

    def url(self, user: str = "tests", database: str = "postgres", password: str = "") -> str:
        """Return the address of a database, as people write it."""
        secret = f":{password}" if password else ""
        return f"postgresql://{user}{secret}@/{database}?host={self.directory}"

    def execute(self, *statements: str) -> list[tuple[Any, ...]]:
        """Run statements, and return the rows of the last one."""
        rows: list[tuple[Any, ...]] = []
        with psycopg.connect(self.conninfo, autocommit=True) as link:
            for statement in statements:
                answer = link.execute(statement.encode())
                rows = answer.fetchall() if answer.description else []
        return rows

    def start(self) -> None:
        """Start it, and wait until it takes connections."""
        options = f"{self.settings} -k {self.directory}"
        self.run("pg_ctl", "start", "-w", "-l", f"{self.directory}/log", "-o", options)

    def stop(self, mode: str = "immediate") -> None:
        """Stop it, and wait until it has ended. `immediate` is a crash, and `fast` cuts the connections."""
        self.run("pg_ctl", "stop", "-m", mode)

    def reload(self) -> None:
        """Let it read its files of configuration again."""
        self.run("pg_ctl", "reload")

    def run(self, program: str, *arguments: str) -> None:
        with self.process(str(self.programs / program), "-D", f"{self.directory}/data", *arguments) as one:
            one.communicate()
        assert one.returncode == 0, program

    def process(self, *command: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            command,
            cwd=self.directory,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            start_new_session=True,
            user=self.account.pw_uid if self.account else None,
            group=self.account.pw_gid if self.account else None,
            extra_groups=[] if self.account else None,
        )


@contextmanager
def postgres_server(settings: str = QUICK) -> Iterator[PostgresServer]:
    """Run a new server on a socket in a new directory. It ends with the block, or with this process. Skip the
    test if PostgreSQL is not installed."""
    programs = programs_of_postgres()
    if programs is None:
        pytest.skip("PostgreSQL is not installed (Debian: apt install postgresql)")
    directory = tempfile.mkdtemp(prefix="pg-")
    server = PostgresServer(Path(directory), programs, _account(), settings)
    if server.account is not None:
        os.chown(directory, server.account.pw_uid, server.account.pw_gid)
    server.run("initdb", "-A", "trust", "-U", "tests", "-E", "UTF8", "--locale=C.UTF-8", "--no-sync")
    with server.process("sh", "-c", KEEPER, "keeper", str(programs), directory):
        server.start()
        yield server


def postgres_engine(conninfo: str) -> OpenEngine:
    """Return what opens the store at a path: the schema of a database that belongs to the path."""

    def opened(path: Path, world: World, steps: Sequence[SchemaStep]) -> Engine:
        schema = "home_" + hashlib.sha256(str(path).encode()).hexdigest()[:16]
        return open_postgres(Server(conninfo, schema, PATIENCE), world, steps)

    return opened


class AtOnce:
    """A connection whose statements are sent one by one, for a test that looks at the error of each."""

    def __init__(self, connection: PostgresConnection) -> None:
        self.connection = connection

    def execute(self, statement: str, parameters: Sequence[Any] = (), /) -> PostgresRows:
        rows = self.connection.execute(statement, parameters)
        try:
            self.connection.send()
        except BaseException:
            self.connection.has_failed = False  # the test ends the transaction, if there is one
            raise
        return rows


def at_once(db: Db) -> Db:
    """Let each statement of a connection have its effect or its error at once, as a file does."""
    return AtOnce(db) if isinstance(db, PostgresConnection) else db


def programs_of_postgres() -> Path | None:
    """Return the directory of the programs of PostgreSQL; None if it is not installed."""
    found = shutil.which("initdb")
    if found:
        return Path(found).resolve().parent
    debian = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    return debian[-1].parent if debian else None


def _account() -> pwd.struct_passwd | None:
    """Return the account for the server, which refuses to run as root; None for this one."""
    if os.getuid():
        return None
    try:
        return pwd.getpwnam("postgres")
    except KeyError:
        return pwd.getpwnam("nobody")
