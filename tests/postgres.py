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


# Waits for the end of its input, which comes also when the process of the tests is killed.
KEEPER = 'read _; "$1/pg_ctl" stop -D "$2/data" -m immediate; rm -rf "$2"'


@contextmanager
def postgres_server() -> Iterator[str]:
    """Run a new server on a socket in a new directory; yield how to connect to it. It ends with the block, or
    with this process. Skip the test if PostgreSQL is not installed."""
    programs = _programs()
    if programs is None:
        pytest.skip("PostgreSQL is not installed (Debian: apt install postgresql)")
    directory = tempfile.mkdtemp(prefix="pg-")
    account = _account()
    if account is not None:
        os.chown(directory, account.pw_uid, account.pw_gid)

    def start(*command: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            command,
            cwd=directory,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            start_new_session=True,
            user=account.pw_uid if account else None,
            group=account.pw_gid if account else None,
            extra_groups=[] if account else None,
        )

    def run(program: str, *arguments: str) -> None:
        with start(str(programs / program), "-D", f"{directory}/data", *arguments) as process:
            process.communicate()
        assert process.returncode == 0, program

    run("initdb", "-A", "trust", "-U", "tests", "-E", "UTF8", "--locale=C.UTF-8", "--no-sync")
    with start("sh", "-c", KEEPER, "keeper", str(programs), directory):
        run("pg_ctl", "start", "-w", "-l", f"{directory}/log", "-o", f"{QUICK} -k {directory}")
        yield f"host={directory} user=tests dbname=postgres"


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
