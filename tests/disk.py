"""One disk for all tests: the worker of a database or of run journals that is fast, slow, hanging or late."""

from __future__ import annotations

import math
import sqlite3
from collections import deque
from collections.abc import AsyncIterator, Callable, Collection, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import partial
from typing import Any

import outcome
import psycopg
import trio

from hermes_trio.host.loop.worker import Runner, Worker, inline_worker
from hermes_trio.state.db.database import Database
from hermes_trio.state.db.engine import Db
from tests.postgres import at_once

Done = Callable[[outcome.Outcome[Any]], object]
Job = tuple[Callable[[], Any], Done]


@contextmanager
def refusing_writes(connection: Db) -> Iterator[None]:
    """Let this connection refuse every write in the block, as on a full disk."""
    of_sqlite = isinstance(connection, sqlite3.Connection)
    refuses = "PRAGMA query_only" if of_sqlite else "SET default_transaction_read_only"
    connection = at_once(connection)
    connection.execute(f"{refuses} = on")
    try:
        yield
    finally:
        with suppress(sqlite3.ProgrammingError, psycopg.OperationalError):  # closed in the block
            connection.execute(f"{refuses} = off")


@asynccontextmanager
async def full_disk(database: Database) -> AsyncIterator[None]:
    """Let this database refuse every write in the block."""
    with refusing_writes(await database.write(lambda connection: connection)):
        yield


class Disk:
    """A disk that does its jobs at once, or that can be made slow, hang or answer late.

    `Disk().worker` and `Disk(nursery).worker` are workers for `open_database` and `open_journals`. With a
    nursery each job takes `seconds` of Trio's clock; `math.inf` is a disk that never answers again. With
    `reports_late` a slow job is done at once, and its result is reported after these seconds. `only` names
    the workers that use this disk; the others are of the `usual` kind.
    """

    def __init__(
        self,
        nursery: trio.Nursery | None = None,
        *,
        only: Collection[str] | None = None,
        reports_late: bool = False,
        usual: Worker = inline_worker,
    ) -> None:
        self.seconds = 0.0
        """The duration of each job, on a disk with a nursery."""
        self.hangs = False
        """True while jobs are held; they are done when the disk recovers, or never."""
        self.answers_late = False
        """True while jobs are done at once, but reported only when the disk recovers."""
        self.jobs: list[Job] = []
        """All jobs, kept: objects that a job refers to live as long as the disk."""
        self._nursery = nursery
        self._only = only
        self._reports_late = reports_late
        self._usual = usual
        self._held: deque[Callable[[], None]] = deque()

    @contextmanager
    def worker(self, name: str) -> Iterator[Runner]:
        if self._only is not None and name not in self._only:
            with self._usual(name) as runner:
                yield runner
            return
        with self._slow_worker(name) if self._nursery else self._usual(name) as usual:

            def runner(job: Callable[[], Any], done: Done) -> None:
                self.jobs.append((job, done))
                if self.hangs:
                    self._held.append(partial(usual, job, done))
                elif self.answers_late:
                    self._held.append(partial(usual, outcome.capture(job).unwrap, done))
                else:
                    usual(job, done)

            yield runner

    def does_one(self) -> None:
        """Do or report the first held job."""
        self._held.popleft()()

    def recovers(self) -> None:
        """Do or report all held jobs, and hold no more."""
        self.hangs = self.answers_late = False
        while self._held:
            self.does_one()

    @contextmanager
    def _slow_worker(self, name: str) -> Iterator[Runner]:
        give, take = trio.open_memory_channel[Job](math.inf)
        assert self._nursery is not None
        self._nursery.start_soon(self._work, take, name=name)

        def runner(job: Callable[[], Any], done: Done) -> None:
            with suppress(trio.ClosedResourceError):  # like the real thread, which ignores late jobs
                give.send_nowait((job, done))

        with give:
            yield runner

    async def _work(self, jobs: trio.MemoryReceiveChannel[Job]) -> None:
        async for job, done in jobs:
            if self._reports_late:
                result = outcome.capture(job)
                await trio.sleep(self.seconds)
            else:
                await trio.sleep(self.seconds)
                result = outcome.capture(job)
            done(result)
