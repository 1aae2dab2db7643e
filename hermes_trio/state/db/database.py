"""The owner of `gateway.db`, which commits the writes of many tasks together.

A task that writes hands over a *step*, a function of the connection, and waits. The steps that wait at the
same time are one batch: one transaction, one fsync, and only then are their callers released. Steps are
applied in the order in which they were handed over. If one of them fails, by its own fault or because the
disk is full, the whole batch is rolled back; then each half of it is applied in its own transaction, and so
on, so that only the step that fails alone fails, and only its caller gets the error. So a step must depend
on nothing but the database and its arguments. (Savepoints around every step would avoid the repeated runs,
which are rare, and cost a tenth of all throughput.)

A caller that is cancelled while it waits leaves at once. Its step is applied nevertheless: completely, and
in its order. So a write is never half done, a write in a scope that is already cancelled (the end of a turn)
is still committed, and a slow disk delays no stop.

Reads use a second connection that cannot write, and run concurrently with the writes.

After each commit, and before its callers are released, the files at the path are checked (`file_identity`).
If they are not the open files any more, nothing is stored from then on: all callers get `StoreReplaced`.
"""

from __future__ import annotations

import math
import sqlite3
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import ExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

import outcome
import trio

from ...base.errors import StoreClosed, StoreDamaged, StoreError, StoreReplaced
from ...base.world import World
from ...host.loop.worker import (
    Batcher,
    BatchTimes,
    Pending,
    Runner,
    Worker,
    finished,
    perform_each,
    worker_thread,
)
from ...log import Log
from .file_identity import save_copy
from .migrations import SchemaStep, shipped_steps
from .opening import Connections, open_connections
from .search_index import is_index_damage, rebuild_index
from .sqlite_errors import as_store_error

P = ParamSpec("P")
T = TypeVar("T")
Step = Callable[[sqlite3.Connection], Any]

MAX_BATCH = 16_384
"""Large enough for all the turns that are cut in one moment: while the writer thread and Trio's thread are
both busy they compete for Python's lock, and each needs twice its time."""
CLOSE_WITHIN = 2.0

log = Log(__name__)


class Database:
    """The open database. Created by `open_database`; usable until its block ends."""

    def __init__(self, path: Path, opened: Connections, writer: Runner, reader: Runner) -> None:
        self.path = path
        self.damaged_copy = opened.damaged_copy
        """The unreadable database that was set aside when this one was opened; None if there was none."""
        self._writing, self._reading = opened.writing, opened.reading
        self._writer, self._reader = writer, reader
        self._writes: Batcher[Step, Any] = Batcher(self._noticing(writer), self._perform, limit=MAX_BATCH)
        self._reads: Batcher[Callable[[], Any], Any] = Batcher(reader, perform_each, limit=MAX_BATCH)
        self._files, self._saved = opened.files, False
        self._is_replaced = False
        self._replaced = trio.Event()
        self._open = True
        self._ours = self._index_rebuilt = False
        self._writing.set_authorizer(self._judge)
        # SQLite calls this from time to time during a read, so that closing interrupts a long one.
        self._reading.set_progress_handler(lambda: not self._open, 10_000)

    @property
    def took(self) -> BatchTimes:
        """The durations of the commits."""
        return self._writes.took

    async def write(
        self,
        step: Callable[Concatenate[sqlite3.Connection, P], T],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """Apply `step`, and return its result after the commit that contains it. A step cannot begin or end
        a transaction: SQLite refuses such statements."""
        self._check_open()
        result: T = await self._writes.performed(lambda connection: step(connection, *args, **kwargs))
        return result

    async def read(
        self,
        query: Callable[Concatenate[sqlite3.Connection, P], T],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """Return the result of `query` on one snapshot of the committed data, however many statements it
        runs. Waits for no write. Raises `StoreClosed` if the database is closed during the read."""

        def run() -> T:
            connection = self._reading
            self._check_open()
            try:
                connection.execute("BEGIN")
                try:
                    return query(connection, *args, **kwargs)
                finally:
                    if connection.in_transaction:
                        connection.execute("ROLLBACK")
            except sqlite3.Error as error:
                if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_INTERRUPT:
                    self._check_open()
                raise as_store_error(error, self.path)  # noqa: B904 - has its cause

        self._check_open()
        try:
            found: T = await self._reads.performed(run)
        except StoreDamaged as damage:
            search = damage.__cause__ is not None and is_index_damage(damage.__cause__)
            self._check_open()
            # If this is cancelled, nobody waits for the error any more.
            if not (search and await finished(self._writer, self._rebuild_search_index)):  # noqa: ASYNC120
                raise
            self._check_open()
            found = await self._reads.performed(run)
        return found

    @property
    def is_replaced(self) -> bool:
        """True once the files were removed or replaced: nothing is stored any more."""
        return self._replaced.is_set()

    async def replaced(self) -> None:
        """Wait until the files are found removed or replaced."""
        await self._replaced.wait()

    async def save(self, world: World) -> Path | None:
        """Save the content of a replaced database to a new file, where the next start or a person finds it,
        and return its path; None if it was saved before. Raises OSError or sqlite3.Error."""

        def job() -> Path | None:
            if self._saved:
                return None
            saved = save_copy(self._writing, self._files, world)
            self._saved = True
            return saved

        return await finished(self._writer, job)

    def _check_open(self) -> None:
        if not self._open:
            raise StoreClosed(self.path, "was used after it was closed", "This is a bug: report it.")

    async def _close(self, world: World) -> None:
        """Refuse new reads and writes, finish the pending writes, and close both connections."""
        self._open = False
        self._writes.flush()
        with suppress(StoreError, sqlite3.Error):  # this step stores nothing, so a failure loses nothing
            await self._writes.performed(lambda _: None)
        if self._is_replaced:
            try:
                if saved := await self.save(world):
                    log.error("database files removed or replaced; saved a copy", saved=saved.name)
            except (OSError, sqlite3.Error) as error:
                log.error("database files removed or replaced; copy not saved", error=str(error))
            # Before the reader: a writer that is closed last would remove the log at the path.
            await finished(self._writer, self._writing.close)
        await finished(self._reader, self._reading.close)
        # After the reader: the connection that is closed last merges the log, which a reader cannot.
        await finished(self._writer, self._writing.close)

    def _abandon(self) -> None:
        """Leave the closing of the connections to the worker threads, for when the disk answers again."""
        self._reader(self._reading.close, lambda _: None)
        self._writer(self._writing.close, lambda _: None)

    def _noticing(self, writer: Runner) -> Runner:
        """Return `writer`, extended so that Trio's thread learns of replaced files after the batch that
        found them."""

        def run(job: Callable[[], T], done: Callable[[outcome.Outcome[T]], object]) -> None:
            def performed(result: outcome.Outcome[T]) -> None:
                if self._is_replaced:
                    self._replaced.set()
                done(result)

            writer(job, performed)

        return run

    def _perform(self, batch: Sequence[Pending[Step, Any]]) -> None:
        """Apply and commit the steps of `batch`, unless the files were removed or replaced."""
        if not self._is_replaced:
            self._commit(batch)
            self._is_replaced = self._files.changed()
        if self._is_replaced:
            for write in batch:
                write.result = outcome.Error(StoreReplaced(self.path))

    def _commit(self, batch: Sequence[Pending[Step, Any]]) -> None:
        """Apply the steps of `batch` in one transaction; if one of them fails, each half in its own."""
        connection = self._writing
        try:
            self._transaction("BEGIN IMMEDIATE")
        except sqlite3.Error as error:  # not the fault of a step; retrying would wait for the lock again
            for write in batch:
                write.result = outcome.Error(as_store_error(error, self.path))
            return
        try:
            for write in batch:
                write.result = outcome.Value(write.item(connection))
                if not connection.in_transaction:  # the other steps need the transaction
                    raise sqlite3.OperationalError("SQLite rolled back, and the step suppressed the error")
            self._transaction("COMMIT")
        except BaseException as error:  # noqa: ASYNC103 - a job of the worker: no Cancelled comes here
            if connection.in_transaction:  # on a full disk SQLite has rolled back already
                self._transaction("ROLLBACK")
            if len(batch) == 1 and not (is_index_damage(error) and self._rebuild_search_index()):
                # Any error of a step is its caller's.
                batch[0].result = outcome.Error(as_store_error(error, self.path))
                return  # noqa: ASYNC104
            half = (len(batch) + 1) // 2
            for part in filter(None, (batch[:half], batch[half:])):
                self._commit(part)

    def _rebuild_search_index(self) -> bool:
        """Rebuild the search index, once for each opening: while it is damaged, no message can be stored.
        Return True if the rebuild worked and the failed operation may be repeated."""
        if self._index_rebuilt:
            return False
        self._index_rebuilt = True
        log.warning("search index damaged; rebuilding it from the messages")
        with suppress(sqlite3.Error):
            rebuild_index(self._writing)
            return True
        return False

    def _transaction(self, statement: str) -> None:
        self._ours = True
        try:
            # The comment makes the text unique: a statement that SQLite has cached is not authorized again.
            self._writing.execute(statement + " -- of a batch")
        finally:
            self._ours = False

    def _judge(self, action: int, *_: object) -> int:
        """Authorize a statement for SQLite. A step that commits, as a harmless `with connection:` does,
        would commit half of its batch, and that half would be applied a second time."""
        theirs = action == sqlite3.SQLITE_TRANSACTION and not self._ours
        return sqlite3.SQLITE_DENY if theirs else sqlite3.SQLITE_OK


@asynccontextmanager
async def open_database(
    path: Path,
    world: World,
    *,
    worker: Worker = worker_thread,
    steps: Sequence[SchemaStep] | None = None,
    close_by: Callable[[], float] = lambda: math.inf,
) -> AsyncIterator[Database]:
    """Open the database at `path`; create it or apply missing schema steps if needed. When the block ends,
    the pending writes are finished and it is closed, within `CLOSE_WITHIN` seconds even if the disk hangs,
    and not later than the time that `close_by` returns then.

    Raises a `StoreError` with a remedy: a directory in its place, a newer version's file, another process
    that holds it. A damaged file is set aside and a new one created.
    """
    opened: list[Connections] = []

    def open_them() -> Connections:
        opened.append(open_connections(path, world, shipped_steps() if steps is None else steps))
        return opened[0]

    def close_them() -> None:
        for connections in opened:
            connections.reading.close()
            connections.writing.close()

    with ExitStack() as threads:
        writer = threads.enter_context(worker("store-writer"))
        reader = threads.enter_context(worker("store-reader"))
        try:
            database = Database(path, await finished(writer, open_them), writer, reader)
        except BaseException:
            writer(close_them, lambda _: None)  # after a cancellation the job of opening is still running
            raise
        try:
            yield database
        finally:
            by = min(trio.current_time() + CLOSE_WITHIN, close_by())
            with trio.move_on_at(by, shield=True) as patience:
                await database._close(world)
            if patience.cancelled_caught:
                log.error("disk hangs; database not closed", path=path.name)
                database._abandon()
