"""The one owner of `gateway.db`, and how writes of many become one commit.

Who writes hands over a *step*, a function of the connection, and waits. The steps that wait together
are one batch: one transaction, one fsync, and only then are their callers released. Steps are applied
in the order in which they were handed over. If one of them fails, whether by its own fault or because
the disk is full, nothing of the batch has happened; each half of it is then applied again in a
transaction of its own, and so on, so that only what fails by itself fails, and its caller alone gets the
error. So a step must depend on nothing but the database and its arguments. (Savepoints around every step
would spare the other runs, which are rare, and cost a tenth of all throughput, which is not.)

A caller that is cancelled while it waits leaves at once. Its step is applied all the same: whole, in
its place. So a write is never half-done, a write made in a scope that is already cancelled (the last
words of a turn) still lands, and a slow disk delays no stop.

Reads go to a connection of their own that cannot write, and run beside the writes.

After each commit, and before its callers are released, the files at the path are looked at (`identity`).
If they are not the open ones any more, nothing is stored from then on: all callers get `StoreReplaced`.
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
from ..tables import transcript
from .file_identity import save_copy
from .migrations import SchemaStep, shipped_steps
from .opening import Connections, open_connections
from .sqlite_errors import damages_search, typed

P = ParamSpec("P")
T = TypeVar("T")
Step = Callable[[sqlite3.Connection], Any]

MAX_BATCH = 16_384
"""Room for all the turns that are cut in one moment: while the writer and the loop's thread are both at
work they take Python's lock from each other, and each needs twice its time."""
CLOSE_WITHIN = 2.0

log = Log(__name__)


class Database:
    """The open store. Made by `open_database`; usable until its block ends."""

    def __init__(self, path: Path, opened: Connections, writer: Runner, reader: Runner) -> None:
        self.path = path
        self.damaged_copy = opened.damaged_copy
        """Where a database that could not be read was put aside when this one was opened."""
        self._writing, self._reading = opened.writing, opened.reading
        self._writer, self._reader = writer, reader
        self._writes: Batcher[Step, Any] = Batcher(self._noticing(writer), self._perform, limit=MAX_BATCH)
        self._reads: Batcher[Callable[[], Any], Any] = Batcher(reader, perform_each, limit=MAX_BATCH)
        self._files, self._saved = opened.files, False
        self._is_replaced = False
        self._replaced = trio.Event()
        self._open = True
        self._ours = self._mended = False
        self._writing.set_authorizer(self._judge)
        # Asked now and then while a read runs: it does not hold up the end.
        self._reading.set_progress_handler(lambda: not self._open, 10_000)

    @property
    def took(self) -> BatchTimes:
        """How long the commits have taken."""
        return self._writes.took

    async def write(
        self,
        step: Callable[Concatenate[sqlite3.Connection, P], T],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """Apply `step` and return what it returns, after the commit that holds it. A step neither begins
        nor ends a transaction: SQLite refuses that to it."""
        self._check_open()
        result: T = await self._writes.performed(lambda connection: step(connection, *args, **kwargs))
        return result

    async def read(
        self,
        query: Callable[Concatenate[sqlite3.Connection, P], T],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """What `query` finds in everything that is committed at one moment, however many statements it
        takes. Waits for no write. Raises `StoreClosed` also where the store closes meanwhile."""

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
                raise typed(error, self.path)  # noqa: B904 - has its cause

        self._check_open()
        try:
            found: T = await self._reads.performed(run)
        except StoreDamaged as damage:
            search = damage.__cause__ is not None and damages_search(damage.__cause__)
            self._check_open()
            # Cancelled here means that nobody waits for the damage to be told.
            if not (search and await finished(self._writer, self._mend_search)):  # noqa: ASYNC120
                raise
            self._check_open()
            found = await self._reads.performed(run)
        return found

    @property
    def is_replaced(self) -> bool:
        """Whether its files were removed or replaced, so that it stores nothing any more."""
        return self._replaced.is_set()

    async def replaced(self) -> None:
        """Wait until its files are found removed or replaced."""
        await self._replaced.wait()

    async def save(self, world: World) -> Path | None:
        """Save all that is held to a file that the next start finds, or a person; None if that was done
        before. For a database that was replaced. Raises OSError and sqlite3.Error."""

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
        """Let the writes that are on their way land, and no read begin any more."""
        self._open = False
        self._writes.flush()
        with suppress(StoreError, sqlite3.Error):  # a disk may refuse even this; nobody loses by it
            await self._writes.performed(lambda _: None)
        if self._is_replaced:
            try:
                if saved := await self.save(world):
                    log.error("database files removed or replaced; saved a copy", saved=saved.name)
            except (OSError, sqlite3.Error) as error:
                log.error("database files removed or replaced; copy not saved", error=str(error))
            # Before the reader: the last one to be closed would otherwise remove the log at the path.
            await finished(self._writer, self._writing.close)
        await finished(self._reader, self._reading.close)
        # Behind the reader: the last one writes the log into the file, and a reader cannot.
        await finished(self._writer, self._writing.close)

    def _abandon(self) -> None:
        """Let the connections be closed when the disk answers again, if it ever does."""
        self._reader(self._reading.close, lambda _: None)
        self._writer(self._writing.close, lambda _: None)

    def _noticing(self, writer: Runner) -> Runner:
        """The writer; once it has found the files replaced, Trio's thread knows it after that batch."""

        def run(job: Callable[[], T], done: Callable[[outcome.Outcome[T]], object]) -> None:
            def performed(result: outcome.Outcome[T]) -> None:
                if self._is_replaced:
                    self._replaced.set()
                done(result)

            writer(job, performed)

        return run

    def _perform(self, batch: Sequence[Pending[Step, Any]]) -> None:
        """Apply and commit the steps of `batch`, unless the files are not at the path any more."""
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
        except sqlite3.Error as error:  # no step is to blame, and nobody is to wait for a lock again
            for write in batch:
                write.result = outcome.Error(typed(error, self.path))
            return
        try:
            for write in batch:
                write.result = outcome.Value(write.item(connection))
                if not connection.in_transaction:  # the others must not go on without one
                    raise sqlite3.OperationalError("SQLite rolled back, and the step hid it")
            self._transaction("COMMIT")
        except BaseException as error:  # noqa: ASYNC103 - a job of the worker: no Cancelled comes here
            if connection.in_transaction:  # on a full disk SQLite has rolled back by itself
                self._transaction("ROLLBACK")
            if len(batch) == 1 and not (damages_search(error) and self._mend_search()):
                # Whatever it is, it is for whoever handed over the step that failed.
                batch[0].result = outcome.Error(typed(error, self.path))
                return  # noqa: ASYNC104
            half = (len(batch) + 1) // 2
            for part in filter(None, (batch[:half], batch[half:])):
                self._commit(part)

    def _mend_search(self) -> bool:
        """Make the search index again: while it is damaged, no message can be stored, although it holds
        nothing that the messages do not. Once in a life; True if that may have helped."""
        if self._mended:
            return False
        self._mended = True
        log.warning("the search index was damaged; making it again from the messages")
        with suppress(sqlite3.Error):
            transcript.index_again(self._writing)
            return True
        return False

    def _transaction(self, statement: str) -> None:
        self._ours = True
        try:
            # The comment makes it a text that no step has: what is prepared once is not judged again.
            self._writing.execute(statement + " -- of a batch")
        finally:
            self._ours = False

    def _judge(self, action: int, *_: object) -> int:
        """Asked by SQLite for each statement. A step that commits, as a harmless `with connection:` does,
        would commit half a batch, and the half would be applied again."""
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
    """The store at `path`, made or brought up to date if need be; closed when the block ends, after
    every write that was handed over, or after `CLOSE_WITHIN` seconds of a disk that hangs, and not later
    than `close_by` says then.

    Raises a `StoreError` that says what to do: a directory in its place, a newer version's file,
    another process that holds it. A damaged file is put aside and a fresh one started.
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
            writer(close_them, lambda _: None)  # who is cancelled while it opens leaves before it is open
            raise
        try:
            yield database
        finally:
            by = min(trio.current_time() + CLOSE_WITHIN, close_by())
            with trio.move_on_at(by, shield=True) as patience:
                await database._close(world)
            if patience.cancelled_caught:
                log.error("the disk hangs; left the store unclosed", path=path.name)
                database._abandon()
