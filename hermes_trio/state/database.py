"""The one owner of `gateway.db`, and how writes of many become one commit.

Who writes hands over a *step*, a function of the connection, and waits. The steps that wait together
are one batch: one transaction, one fsync, and only then are their callers released. Steps are applied
in the order in which they were handed over. A step that fails is undone alone (a savepoint) and its
caller gets the error; where SQLite undid the whole transaction, as it does on a full disk, the others
are run again one by one, so a step must depend on nothing but the database and its arguments.

A caller that is cancelled while it waits leaves at once. Its step is applied all the same: whole, in
its place. So a write is never half-done, a write made in a scope that is already cancelled (the last
words of a turn) still lands, and a slow disk delays no stop.

Reads go to a connection of their own that cannot write, and run beside the writes.
"""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import ExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

import outcome
import structlog
import trio

from ..errors import StoreClosed
from ..host.worker import Runner, Worker, finished, worker_thread
from ..world import World
from .opening import Connections, SchemaStep, open_connections, shipped_steps, typed

P = ParamSpec("P")
T = TypeVar("T")
Step = Callable[[sqlite3.Connection], Any]

MAX_BATCH = 512
CLOSE_WITHIN = 2.0

log = structlog.get_logger(__name__)


class _Write:
    """A step on its way: who waits for it, and what came of it."""

    __slots__ = ("result", "step", "task")

    def __init__(self, step: Step, task: trio.lowlevel.Task) -> None:
        self.step = step
        self.task: trio.lowlevel.Task | None = task
        self.result: outcome.Outcome[Any] | None = None


class Database:
    """The open store. Made by `open_database`; usable until its block ends."""

    def __init__(self, path: Path, opened: Connections, writer: Runner, reader: Runner) -> None:
        self.path = path
        self.damaged_copy = opened.damaged_copy
        """Where a database that could not be read was put aside when this one was opened."""
        self._writing, self._reading = opened.writing, opened.reading
        self._writer, self._reader = writer, reader
        self._waiting: list[_Write] = []
        self._busy = False
        self._open = True

    async def write(
        self,
        step: Callable[Concatenate[sqlite3.Connection, P], T],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """Apply `step` and return what it returns, after the commit that holds it."""
        if not self._open:
            raise StoreClosed(self.path, "written to after it was closed", "This is a bug: report it.")
        return await self._committed(lambda connection: step(connection, *args, **kwargs))

    async def read(
        self,
        query: Callable[Concatenate[sqlite3.Connection, P], T],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """What `query` finds in everything that is committed. Waits for no write."""
        if not self._open:
            raise StoreClosed(self.path, "read after it was closed", "This is a bug: report it.")

        def run() -> T:
            try:
                return query(self._reading, *args, **kwargs)
            except sqlite3.Error as error:
                raise typed(error, self.path)  # noqa: B904 - has its cause

        return await finished(self._reader, run)

    async def _committed(self, step: Callable[[sqlite3.Connection], T]) -> T:
        write = _Write(step, trio.lowlevel.current_task())
        self._waiting.append(write)
        if not self._busy:
            # One pass of the loop later: tasks that were released together write together again.
            self._busy = True
            trio.lowlevel.current_trio_token().run_sync_soon(self._commit_next)

        def leave(_: object) -> trio.lowlevel.Abort:
            write.task = None
            return trio.lowlevel.Abort.SUCCEEDED

        result: T = await trio.lowlevel.wait_task_rescheduled(leave)
        return result

    def _commit_next(self) -> None:
        batch, self._waiting = self._waiting[:MAX_BATCH], self._waiting[MAX_BATCH:]
        self._writer(partial(_commit, self._writing, batch), partial(self._release, batch))

    def _release(self, batch: Sequence[_Write], committed: outcome.Outcome[None]) -> None:
        for write in batch:
            result = write.result if isinstance(committed, outcome.Value) else committed
            assert result is not None  # noqa: S101 - _commit gives every step a result
            if isinstance(result, outcome.Error):
                result = outcome.Error(typed(result.error, self.path))
            if write.task is not None:
                trio.lowlevel.reschedule(write.task, result)
            elif isinstance(result, outcome.Error):
                log.error("a write failed after its caller had left", error=str(result.error))
        if self._waiting:
            self._commit_next()
        else:
            self._busy = False

    async def _close(self) -> None:
        """Let the writes that are on their way land, and no read begin any more."""
        self._open = False
        self._reading.interrupt()
        await self._committed(lambda _: None)
        await finished(self._reader, self._reading.close)


class _Undone(Exception):
    """SQLite rolled back the whole transaction because of the step that raised the cause."""


def _commit(connection: sqlite3.Connection, batch: Sequence[_Write]) -> None:
    """Apply the steps of `batch` in order, in one transaction, and note what came of each."""
    try:
        connection.execute("BEGIN IMMEDIATE")
        for write in batch:
            write.result = _apply(connection, write.step)
        connection.execute("COMMIT")
    except (sqlite3.Error, _Undone) as error:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        if len(batch) == 1:
            batch[0].result = outcome.Error(error.__cause__ or error)
            return
        for write in batch:
            _commit(connection, [write])
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _apply(connection: sqlite3.Connection, step: Step) -> outcome.Outcome[Any]:
    """Run one step so that its failure undoes it alone."""
    connection.execute("SAVEPOINT step")
    try:
        value = step(connection)
    except Exception as error:  # whatever it is, it is the caller's: it gets it, the batch goes on
        if not connection.in_transaction:
            raise _Undone from error
        connection.execute("ROLLBACK TO step")
        connection.execute("RELEASE step")
        return outcome.Error(error)
    connection.execute("RELEASE step")
    return outcome.Value(value)


@asynccontextmanager
async def open_database(
    path: Path,
    world: World,
    *,
    worker: Worker = worker_thread,
    steps: Sequence[SchemaStep] | None = None,
) -> AsyncIterator[Database]:
    """The store at `path`, made or brought up to date if need be; closed when the block ends, after
    every write that was handed over, or after `CLOSE_WITHIN` seconds of a disk that hangs.

    Raises a `StoreError` that says what to do: a directory in its place, a newer version's file,
    another process that holds it. A damaged file is put aside and a fresh one started.
    """
    connections: list[Connections] = []

    def open_them() -> Connections:
        connections.append(open_connections(path, world, shipped_steps() if steps is None else steps))
        return connections[0]

    def close_them() -> None:
        for opened in connections:
            opened.writing.close()

    with ExitStack() as threads:
        writer = threads.enter_context(worker("store-writer"))
        reader = threads.enter_context(worker("store-reader"))
        try:
            database = Database(path, await finished(writer, open_them), writer, reader)
            try:
                yield database
            finally:
                with trio.move_on_after(CLOSE_WITHIN, shield=True) as patience:
                    await database._close()
                if patience.cancelled_caught:
                    log.error("the disk hangs; left the store unclosed", path=path.name)
        finally:
            writer(close_them, lambda _: None)
