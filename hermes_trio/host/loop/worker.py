"""Work that blocks, done in order by somebody else.

A `Runner` takes one job after another and never two at once, so whatever its jobs touch (a database
connection, the files of the journals) has one owner without any lock. `worker_thread` is the real one:
a daemon thread, so that a disk that hangs can never keep the process alive. `inline_worker` does the
job on the spot: Trio's auto-jumping test clock does not wait for threads. A test that wants a slow, a
hung or a dying disk gives a runner of its own; that is the only seam there is.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from queue import SimpleQueue
from typing import Any, Generic, Protocol, TypeVar

import outcome
import trio

from ...log import Log

STEPS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
"""Seconds by which batches are told apart."""

Item = TypeVar("Item")
T = TypeVar("T")

log = Log(__name__)


class Runner(Protocol):
    """Runs jobs in the order they come, one at a time."""

    def __call__(self, job: Callable[[], T], done: Callable[[outcome.Outcome[T]], object], /) -> None:
        """Return at once; run `job`; then have Trio's thread call `done` with what came of it."""


Worker = Callable[[str], AbstractContextManager[Runner]]
"""Makes a runner that lives as long as its block; the text names it for people who look."""

_Job = tuple[Callable[[], Any], Callable[[Any], object]]


@contextmanager
def worker_thread(name: str) -> Iterator[Runner]:
    """A runner on a daemon thread. Leaving ends the thread behind its last job without waiting for
    it: who must know that a job is done waits for the job."""
    token = trio.lowlevel.current_trio_token()
    jobs: SimpleQueue[_Job | None] = SimpleQueue()

    def work() -> None:
        while (next_job := jobs.get()) is not None:
            job, done = next_job
            result = outcome.capture(job)
            try:
                token.run_sync_soon(done, result)
            except trio.RunFinishedError:
                return  # the program is over; nobody is left who could be told

    threading.Thread(target=work, name=name, daemon=True).start()
    try:
        yield lambda job, done: jobs.put((job, done))
    finally:
        jobs.put(None)


@contextmanager
def inline_worker(name: str) -> Iterator[Runner]:
    """A runner that does its jobs at once, on Trio's thread."""
    token = trio.lowlevel.current_trio_token()
    yield lambda job, done: token.run_sync_soon(done, outcome.capture(job))


class BatchTimes:
    """How long the batches of somebody have taken."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.counts = [0] * (len(STEPS) + 1)
        """How many took as long as each of the steps, and longer than the one before."""

    def note(self, seconds: float) -> None:
        """Another one took so long."""
        self.seconds += seconds
        self.counts[bisect_left(STEPS, seconds)] += 1


class Pending(Generic[Item, T]):
    """An item on its way through a `Batcher`: who waits for it, and what came of it."""

    __slots__ = ("item", "result", "task")

    def __init__(self, item: Item, task: trio.lowlevel.Task | None) -> None:
        self.item, self.task = item, task
        self.result: outcome.Outcome[T] | None = None


class Batcher(Generic[Item, T]):
    """Hands to a runner, as one job, all that waits for it at that moment.

    `perform` gets the batch, in the order in which the items came, and gives each its result. Those
    who wait are released after it, all of them; who is cancelled while waiting leaves at once, and its
    item is performed all the same.
    """

    def __init__(
        self, runner: Runner, perform: Callable[[Sequence[Pending[Item, T]]], None], *, limit: int
    ) -> None:
        self._runner, self._perform, self._limit = runner, perform, limit
        self._waiting: list[Pending[Item, T]] = []
        self._busy = False
        self.took = BatchTimes()

    def hand_over(self, item: Item, task: trio.lowlevel.Task | None = None) -> Pending[Item, T]:
        """Let `item` be performed behind all that was handed over before it, and wait for nothing."""
        pending: Pending[Item, T] = Pending(item, task)
        self._waiting.append(pending)
        if not self._busy:
            # One pass of the loop later: tasks that were released together hand over together again.
            self._busy = True
            trio.lowlevel.current_trio_token().run_sync_soon(self._start)
        return pending

    async def performed(self, item: Item) -> T:
        """What comes of `item`, or what it raises."""
        pending = self.hand_over(item, trio.lowlevel.current_task())

        def leave(_: object) -> trio.lowlevel.Abort:
            pending.task = None
            return trio.lowlevel.Abort.SUCCEEDED

        result: T = await trio.lowlevel.wait_task_rescheduled(leave)
        return result

    def flush(self) -> None:
        """Hand over what waits now, also behind a batch that hangs: when that comes to its end, so does
        this, although nobody is there any more to start it."""
        while self._waiting:
            self._start()

    def _start(self) -> None:
        batch, self._waiting = self._waiting[: self._limit], self._waiting[self._limit :]
        began = trio.current_time()

        def done(performed: outcome.Outcome[None]) -> None:
            self.took.note(trio.current_time() - began)
            self._release(batch, performed)

        self._runner(lambda: self._perform(batch), done)

    def _release(self, batch: Sequence[Pending[Item, T]], performed: outcome.Outcome[None]) -> None:
        if isinstance(performed, outcome.Error):
            for pending in batch:  # an outcome can be taken only once
                pending.result = outcome.Error(performed.error)
        for pending in batch:
            result = pending.result
            assert result is not None  # noqa: S101 - `perform` gives every item a result
            if pending.task is not None:
                trio.lowlevel.reschedule(pending.task, result)
            elif isinstance(result, outcome.Error):
                log.error("work failed after its caller had left", error=str(result.error))
        if self._waiting:
            self._start()
        else:
            self._busy = False


def perform_each(batch: Sequence[Pending[Callable[[], Any], Any]]) -> None:
    """For a batcher of jobs: do each of them, whatever comes of the others."""
    for pending in batch:
        pending.result = outcome.capture(pending.item)


async def finished(runner: Runner, job: Callable[[], T]) -> T:
    """What `job` returns, or what it raises. Who is cancelled while waiting leaves at once; the job is
    done all the same, whole, and only its result is dropped."""
    task = trio.lowlevel.current_task()
    waiting = True

    def wake(result: outcome.Outcome[T]) -> None:
        if waiting:
            trio.lowlevel.reschedule(task, result)

    def leave(_: object) -> trio.lowlevel.Abort:
        nonlocal waiting
        waiting = False
        return trio.lowlevel.Abort.SUCCEEDED

    runner(job, wake)
    result: T = await trio.lowlevel.wait_task_rescheduled(leave)
    return result
