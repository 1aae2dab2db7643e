"""The owner of the database, which commits the writes of many tasks together.

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

After each commit, and before its callers are released, the engine looks whether its files are still those at
the path (`file_identity`). If not, nothing is stored from then on: all callers get `StoreReplaced`.

A gateway guards its database: from then on each transaction begins with a statement that proves that the life
of this gateway goes on. When it does not, nothing is stored any more: all callers get `LifeIsOver`.

When the connection to a server is lost, the engine connects again and the batch is applied again. If it was
lost while the server was committing, the beat of the life tells which: each commit has moved it by one.
"""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import ExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

import outcome
import trio

from ...base.errors import LifeIsOver, StoreClosed, StoreDamaged, StoreError, StoreReplaced
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
from .engine import Db, Engine, Listener
from .migrations import SchemaStep, shipped_steps
from .sqlite_engine import open_sqlite

P = ParamSpec("P")
T = TypeVar("T")
Step = Callable[[Db], Any]

MAX_BATCH = 16_384
"""Large enough for all the turns that are cut in one moment: while the writer thread and Trio's thread are
both busy they compete for Python's lock, and each needs twice its time."""
CLOSE_WITHIN = 2.0

OpenEngine = Callable[[Path, World, Sequence[SchemaStep]], Engine]
"""Opens the store at a path; creates it or applies missing schema steps if needed. Raises `StoreError`."""

log = Log(__name__)


@dataclass(frozen=True, slots=True)
class Guard:
    """The proof, in each transaction, that the life which writes goes on."""

    proves: Callable[[Db], Callable[[], bool]]
    """The first step of each transaction. It moves the beat. What it returns is called before the commit, on
    an engine that is not remote: if that returns False, the life is over."""
    demands: Callable[[Db], object]
    """The second step, on a remote engine: a statement that fails on the server, and with it the transaction,
    if the life is over. So no answer has to be waited for before the commit."""
    beat: Callable[[Db], int]
    """The beat of the life: the number of its committed transactions, and of the one that asks."""
    proved: Callable[[float], object]
    """Called on Trio's thread after a commit, with Trio's time before its transaction began."""
    refuted: Callable[[], object]
    """Called on Trio's thread when the life is found to be over."""


class Database:
    """The open database. Created by `open_database`; usable until its block ends."""

    def __init__(self, path: Path, engine: Engine, writer: Runner, reader: Runner) -> None:
        self.path = path
        self.damaged_copy = engine.damaged_copy
        """The unreadable database that was set aside when this one was opened; None if there was none."""
        self._engine = engine
        self._writer, self._reader = writer, reader
        self._writes: Batcher[Step, Any] = Batcher(self._noticing(writer), self._perform, limit=MAX_BATCH)
        self._reads: Batcher[Callable[[], Any], Any] = Batcher(reader, perform_each, limit=MAX_BATCH)
        self._is_replaced = self._saved = self._is_over = False
        self._replaced = trio.Event()
        self._guard: Guard | None = None
        self._commits = self._beats = 0
        self._open = True

    @property
    def took(self) -> BatchTimes:
        """The durations of the commits."""
        return self._writes.took

    async def write(
        self,
        step: Callable[Concatenate[Db, P], T],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """Apply `step`, and return its result after the commit that contains it. A step cannot begin or end
        a transaction: the engine refuses such statements."""
        self._check_open()
        result: T = await self._writes.performed(lambda connection: step(connection, *args, **kwargs))
        return result

    async def read(
        self,
        query: Callable[Concatenate[Db, P], T],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """Return the result of `query` on one snapshot of the committed data, however many statements it
        runs. Waits for no write. Raises `StoreClosed` if the database is closed during the read."""

        def run() -> T:
            self._check_open()
            return self._engine.read(lambda db: query(db, *args, **kwargs))

        self._check_open()
        try:
            found: T = await self._reads.performed(run)
        except StoreDamaged as damage:
            self._check_open()
            # If this is cancelled, nobody waits for the error any more.
            if not await finished(self._writer, partial(self._engine.repair, damage)):  # noqa: ASYNC120
                raise
            self._check_open()
            found = await self._reads.performed(run)
        return found

    def listen(self, life: str) -> Listener | None:
        """Open what hears hints that work waits for a life; None where nobody else stores any. Blocks. Raises
        `StoreError`."""
        return self._engine.listen(life)

    def guard(self, guard: Guard) -> None:
        """Let each transaction from now on begin with this proof. The life has no beat yet."""
        self._guard, self._beats = guard, 0

    @property
    def is_replaced(self) -> bool:
        """True once the files were removed or replaced: nothing is stored any more."""
        return self._replaced.is_set()

    async def replaced(self) -> None:
        """Wait until the files are found removed or replaced."""
        await self._replaced.wait()

    async def save(self, world: World) -> Path | None:
        """Save the content of a replaced database to a new file, where the next start or a person finds it,
        and return its path; None if it was saved before. Raises OSError or `StoreError`."""

        def job() -> Path | None:
            if self._saved:
                return None
            saved = self._engine.save(world)
            self._saved = True
            return saved

        return await finished(self._writer, job)

    def _check_open(self) -> None:
        if not self._open:
            raise StoreClosed(self._engine.path, "was used after it was closed", "This is a bug: report it.")

    async def _close(self, world: World) -> None:
        """Refuse new reads and writes, finish the pending writes, and close both connections."""
        self._open = False
        self._engine.end_reads()
        self._writes.flush()
        with suppress(Exception):  # this step stores nothing, so a failure loses nothing
            await self._writes.performed(lambda _: None)
        if self._is_replaced:
            try:
                if saved := await self.save(world):
                    log.error("database files removed or replaced; saved a copy", saved=saved.name)
            except (OSError, StoreError) as error:
                log.error("database files removed or replaced; copy not saved", error=str(error))
            # Before the reader: a writer that is closed last would remove the log at the path.
            await finished(self._writer, self._engine.close_writing)
        await finished(self._reader, self._engine.close_reading)
        # After the reader: the connection that is closed last merges the log, which a reader cannot.
        await finished(self._writer, self._engine.close_writing)

    def _abandon(self) -> None:
        """Leave the closing of the connections to the worker threads, for when the disk answers again."""
        self._reader(self._engine.close_reading, lambda _: None)
        self._writer(self._engine.close_writing, lambda _: None)

    def _noticing(self, writer: Runner) -> Runner:
        """Return `writer`, extended so that Trio's thread learns of replaced files, and whether the life goes
        on, after the batch that found it."""

        def run(job: Callable[[], T], done: Callable[[outcome.Outcome[T]], object]) -> None:
            began, commits = trio.current_time(), self._commits

            def performed(result: outcome.Outcome[T]) -> None:
                if self._is_replaced:
                    self._replaced.set()
                if self._guard is not None:
                    if self._is_over:
                        self._guard.refuted()
                    elif self._commits > commits:
                        self._guard.proved(began)
                done(result)

            writer(job, performed)

        return run

    def _perform(self, batch: Sequence[Pending[Step, Any]]) -> None:
        """Apply and commit the steps of `batch`, unless the files were removed or replaced."""
        if not self._is_replaced:
            self._commit(batch)
            self._is_replaced = self._engine.is_replaced()
        if self._is_replaced:
            for write in batch:
                write.result = outcome.Error(StoreReplaced(self._engine.path))

    def _commit(self, batch: Sequence[Pending[Step, Any]]) -> None:
        """Apply the steps of `batch` in one transaction; if one of them fails, each half in its own."""
        engine, guard, is_undecided = self._engine, self._guard, False
        while True:
            is_committing, goes_on = False, _unguarded
            try:
                engine.begin()
                if guard is not None:
                    goes_on = guard.proves(engine.writing)
                    if is_undecided and guard.beat(engine.writing) > self._beats + 1:
                        # It was committed before, and only the answer was lost: the results stand.
                        engine.rollback()
                        self._count_commit()
                        return
                    if engine.is_remote:
                        guard.demands(engine.writing)
            except Exception as error:  # not the fault of a step; retrying would wait for the lock again
                engine.rollback()
                if self._is_back():
                    continue
                _refuse(batch, partial(engine.translated, error))
                return
            try:
                for write in batch:
                    write.result = outcome.Value(write.item(engine.writing))
                    engine.check()  # the other steps need the transaction
                if not engine.is_remote:
                    self._is_over = not goes_on()
                    if self._is_over:
                        raise LifeIsOver(engine.path)
                is_committing = True
                engine.commit()
                self._count_commit()
            except BaseException as error:  # noqa: ASYNC103 - a job of the worker: no Cancelled comes here
                proof = outcome.capture(goes_on)
                engine.rollback()
                if engine.is_lost:
                    is_undecided = is_committing
                    # Without a guard nothing tells whether it was committed.
                    if (guard is not None or not is_committing) and self._is_back():
                        continue  # noqa: ASYNC104
                    _refuse(batch, partial(engine.translated, error))
                    return  # noqa: ASYNC104
                if isinstance(proof, outcome.Error):  # as above, found with the first result
                    _refuse(batch, partial(engine.translated, error))
                    return  # noqa: ASYNC104
                self._is_over = not proof.value
                if self._is_over:
                    _refuse(batch, partial(LifeIsOver, engine.path))
                    return  # noqa: ASYNC104
                if len(batch) == 1 and not engine.repair(error):
                    # Any error of a step is its caller's.
                    batch[0].result = outcome.Error(engine.translated(error))
                    return  # noqa: ASYNC104
                half = (len(batch) + 1) // 2
                for part in filter(None, (batch[:half], batch[half:])):
                    self._commit(part)
            return

    def _is_back(self) -> bool:
        """If the connection is lost, open it again. Return whether the transaction may be repeated."""
        if not self._engine.is_lost:
            return False
        try:
            self._engine.reconnect()
        except StoreError as error:
            log.error("connection to the database not opened again", error=str(error))
            return False
        return True

    def _count_commit(self) -> None:
        self._commits += 1
        self._beats += 1


def _unguarded() -> bool:
    return True


def _refuse(batch: Sequence[Pending[Step, Any]], error: Callable[[], BaseException]) -> None:
    """Let each caller have an error of its own."""
    for write in batch:
        write.result = outcome.Error(error())


@asynccontextmanager
async def open_database(
    path: Path,
    world: World,
    *,
    worker: Worker = worker_thread,
    steps: Sequence[SchemaStep] | None = None,
    close_by: Callable[[], float] = lambda: math.inf,
    open_engine: OpenEngine = open_sqlite,
) -> AsyncIterator[Database]:
    """Open the database at `path`; create it or apply missing schema steps if needed. When the block ends,
    the pending writes are finished and it is closed, within `CLOSE_WITHIN` seconds even if the disk hangs,
    and not later than the time that `close_by` returns then.

    Raises a `StoreError` with a remedy: a directory in its place, a newer version's file, another process
    that holds it. A damaged file is set aside and a new one created.
    """
    opened: list[Engine] = []

    def open_it() -> Engine:
        opened.append(open_engine(path, world, shipped_steps() if steps is None else steps))
        return opened[0]

    def close_it() -> None:
        for engine in opened:
            engine.close_reading()
            engine.close_writing()

    with ExitStack() as threads:
        writer = threads.enter_context(worker("store-writer"))
        reader = threads.enter_context(worker("store-reader"))
        try:
            database = Database(path, await finished(writer, open_it), writer, reader)
        except BaseException:
            writer(close_it, lambda _: None)  # after a cancellation the job of opening is still running
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
