"""What the stories of the store share: a small schema of their own, a disk that is slow or hangs, and ways
to look at a database from outside."""

from __future__ import annotations

import math
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import outcome
import pytest
import trio

from hermes_trio.host.loop.worker import Runner
from hermes_trio.state.db.migrations import SchemaStep
from hermes_trio.state.db.opening import connect_reading

GUESTS = SchemaStep(
    "0001_guests", "CREATE TABLE guests (place INTEGER PRIMARY KEY, name TEXT UNIQUE) STRICT;"
)

Job = tuple[Callable[[], Any], Callable[[outcome.Outcome[Any]], object]]


def enter(db: sqlite3.Connection, name: str) -> str:
    """Write one guest down; no name comes twice."""
    db.execute("INSERT INTO guests (name) VALUES (?)", (name,))
    return name


def guests(db: sqlite3.Connection) -> list[str]:
    """Who is written down, in the order of writing."""
    return [name for (name,) in db.execute("SELECT name FROM guests ORDER BY place")]


def seen_from_outside(path: Path) -> list[str]:
    """The guests as another program sees them: only what is committed."""
    with closing(connect_reading(path)) as connection:
        return guests(connection)


def traced(db: sqlite3.Connection, statements: list[str]) -> None:
    """A step that notes what the connection does from now on."""
    db.set_trace_callback(statements.append)


def commits(statements: list[str]) -> int:
    return sum(statement.startswith("COMMIT") for statement in statements)


def open_files(path: Path) -> list[str]:
    """Which files of the database this process has open, where the system tells."""
    fds = Path("/proc/self/fd")
    if not fds.is_dir():
        pytest.skip("this system does not tell which files are open")
    targets = []
    for fd in list(fds.iterdir()):
        with suppress(FileNotFoundError):  # the one that listed them
            targets.append(fd.readlink())
    return sorted(target.name for target in targets if target.parent == path.parent)


def store_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith("store-")]


class SlowDisk:
    """A disk whose jobs take `seconds` of Trio's clock each: none, many, or for ever."""

    def __init__(self, nursery: trio.Nursery) -> None:
        self.seconds = 0.0
        self.jobs: list[Job] = []
        """Every job it was given, kept: what a job holds stays alive as long as the disk."""
        self._nursery = nursery

    @contextmanager
    def worker(self, name: str) -> Iterator[Runner]:
        give, take = trio.open_memory_channel[Job](math.inf)
        self._nursery.start_soon(self._work, take, name=name)

        def runner(job: Callable[[], Any], done: Callable[[outcome.Outcome[Any]], object]) -> None:
            self.jobs.append((job, done))
            with suppress(trio.ClosedResourceError):  # as the real thread: what comes too late is not done
                give.send_nowait((job, done))

        with give:
            yield runner

    async def _work(self, jobs: trio.MemoryReceiveChannel[Job]) -> None:
        async for job, done in jobs:
            await trio.sleep(self.seconds)
            done(outcome.capture(job))


def killed_after(path: Path, *names: str) -> None:
    """Let a process write these guests and kill it, so that they stand in the log and nowhere else."""
    write = (
        "import os, pathlib, sys; from hermes_trio.state.db.opening import open_connections;"
        "from hermes_trio.base.world import World; from tests.state.seams import GUESTS, enter;"
        "db = open_connections(pathlib.Path(sys.argv[1]), World(), [GUESTS]).writing;"
        "[enter(db, name) for name in sys.argv[2:]]; os.kill(os.getpid(), 9)"
    )
    killed = subprocess.run(
        [sys.executable, "-c", write, path, *names], check=False, cwd=Path(__file__).parents[2]
    )
    assert killed.returncode == -9
    assert path.with_name(path.name + "-wal").stat().st_size > 0
