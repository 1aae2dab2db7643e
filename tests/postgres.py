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
from pathlib import Path

import pytest

from hermes_trio.base.world import World
from hermes_trio.state.db.database import OpenEngine
from hermes_trio.state.db.engine import Engine
from hermes_trio.state.db.migrations import SchemaStep
from hermes_trio.state.db.postgres_engine import open_postgres

# Nothing of a test has to survive a crash of the machine.
QUICK = "-c listen_addresses='' -c fsync=off -c synchronous_commit=off -c full_page_writes=off"


@contextmanager
def postgres_server() -> Iterator[str]:
    """Run a new server on a socket in a new directory; yield how to connect to it. Skip the test if
    PostgreSQL is not installed, or refuses to run for this account."""
    programs = _programs()
    if programs is None:
        pytest.skip("PostgreSQL is not installed (Debian: apt install postgresql)")
    account = _account()
    with tempfile.TemporaryDirectory(prefix="pg-") as directory:
        if account is not None:
            os.chown(directory, account.pw_uid, account.pw_gid)

        def run(program: str, *arguments: str) -> None:
            command = [str(programs / program), "-D", f"{directory}/data", *arguments]
            if account is None:
                subprocess.run(command, cwd=directory, check=True, stdout=subprocess.DEVNULL)
            else:
                name = account.pw_name
                subprocess.run(command, cwd=directory, check=True, stdout=subprocess.DEVNULL,
                               user=name, group=account.pw_gid, extra_groups=[])  # fmt: skip

        run("initdb", "-A", "trust", "-U", "tests", "-E", "UTF8", "--locale=C.UTF-8", "--no-sync")
        run("pg_ctl", "start", "-w", "-l", f"{directory}/log", "-o", f"{QUICK} -k {directory}")
        try:
            yield f"host={directory} user=tests dbname=postgres"
        finally:
            run("pg_ctl", "stop", "-w", "-m", "immediate")


def postgres_engine(conninfo: str) -> OpenEngine:
    """Return what opens the store at a path: the schema of a database that belongs to the path."""

    def opened(path: Path, world: World, steps: Sequence[SchemaStep]) -> Engine:
        schema = "home_" + hashlib.sha256(str(path).encode()).hexdigest()[:16]
        return open_postgres(path, world, steps, conninfo=conninfo, schema=schema)

    return opened


def _programs() -> Path | None:
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
