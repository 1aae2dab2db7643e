"""Blocking work, done in order on a worker thread.

A `Runner` runs one job after another and never two at once, so whatever its jobs use (a database connection,
the files of the journals) has one owner without a lock. `worker_thread` is the real one: a daemon thread, so
that a hung disk can never keep the process alive. `inline_worker` runs each job at once: Trio's auto-jumping
test clock does not wait for threads. A test that wants a slow, a hung or a failing disk passes its own
runner.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from queue import SimpleQueue
from typing import Any, Generic, Protocol, TypeVar

import outcome
import trio

from ...log import Log

STEPS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
"""Upper bounds in seconds of the classes in which `BatchTimes` counts batches."""

AT_ONCE = 16
"""Jobs that `together` runs at the same time. The disk takes as many writes at once, and more threads would
compete for Python's lock."""

Item = TypeVar("Item")
T = TypeVar("T")

log = Log(__name__)


class Runner(Protocol):
    """Runs jobs in the order they come, one at a time."""

    def __call__(self, job: Callable[[], T], done: Callable[[outcome.Outcome[T]], object], /) -> None:
        """Return at once. Run `job`, then call `done` with its outcome on Trio's thread."""


Worker = Callable[[str], AbstractContextManager[Runner]]
"""Makes a runner for a block; the text is its name for people, as of the thread."""

_Job = tuple[Callable[[], Any], Callable[[Any], object]]


@contextmanager
def worker_thread(name: str) -> Iterator[Runner]:
    """Yield a runner on a daemon thread. Leaving the block lets the thread end after its last job, without
    waiting for it: a caller that needs a job to be done waits for the job."""
    token = trio.lowlevel.current_trio_token()
    jobs: SimpleQueue[_Job | None] = SimpleQueue()

    def work() -> None:
        while (next_job := jobs.get()) is not None:
            job, done = next_job
            result = outcome.capture(job)
            try:
                token.run_sync_soon(done, result)
            except trio.RunFinishedError:
                return  # Trio has ended; no task is left that waits

    threading.Thread(target=work, name=name, daemon=True).start()
    try:
        yield lambda job, done: jobs.put((job, done))
    finally:
        jobs.put(None)


@contextmanager
def inline_worker(name: str) -> Iterator[Runner]:
    """Yield a runner that runs its jobs at once, on Trio's thread."""
    token = trio.lowlevel.current_trio_token()
    yield lambda job, done: token.run_sync_soon(done, outcome.capture(job))


class BatchTimes:
    """The durations of batches: their sum, and a count for each class of `STEPS`."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.counts = [0] * (len(STEPS) + 1)
        """The number of batches that took at most each of the steps and longer than the one before."""

    def note(self, seconds: float) -> None:
        """Count one batch."""
        self.seconds += seconds
        self.counts[bisect_left(STEPS, seconds)] += 1


class Pending(Generic[Item, T]):
    """An item in a `Batcher`, with the task that waits for it and its result."""

    __slots__ = ("item", "result", "task")

    def __init__(self, item: Item, task: trio.lowlevel.Task | None) -> None:
        self.item, self.task = item, task
        self.result: outcome.Outcome[T] | None = None


class Batcher(Generic[Item, T]):
    """Performs all items that wait at the same moment as one job of a runner.

    `perform` gets the batch, in the order of arrival, and sets the result of each item. After it all waiting
    tasks are released. A task that is cancelled while waiting leaves at once, and its item is performed
    nevertheless.
    """

    def __init__(
        self, runner: Runner, perform: Callable[[Sequence[Pending[Item, T]]], None], *, limit: int
    ) -> None:
        self._runner, self._perform, self._limit = runner, perform, limit
        self._waiting: list[Pending[Item, T]] = []
        self._busy = False
        self.took = BatchTimes()

    def hand_over(self, item: Item, task: trio.lowlevel.Task | None = None) -> Pending[Item, T]:
        """Queue `item` after all earlier items, and return at once."""
        pending: Pending[Item, T] = Pending(item, task)
        self._waiting.append(pending)
        if not self._busy:
            # One pass of the loop later, so that tasks that were released together are in one batch again.
            self._busy = True
            trio.lowlevel.current_trio_token().run_sync_soon(self._start)
        return pending

    async def performed(self, item: Item) -> T:
        """Queue `item` and wait for it. Return its result, or raise its exception."""
        pending = self.hand_over(item, trio.lowlevel.current_task())

        def leave(_: object) -> trio.lowlevel.Abort:
            pending.task = None
            return trio.lowlevel.Abort.SUCCEEDED

        result: T = await trio.lowlevel.wait_task_rescheduled(leave)
        return result

    def flush(self) -> None:
        """Pass all waiting items to the runner, even while a batch hangs: they are performed when it ends,
        although Trio may have ended by then."""
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
            for pending in batch:  # an outcome can be unwrapped only once
                pending.result = outcome.Error(performed.error)
        for pending in batch:
            result = pending.result
            assert result is not None  # noqa: S101 - `perform` gives every item a result
            if pending.task is not None:
                trio.lowlevel.reschedule(pending.task, result)
            elif isinstance(result, outcome.Error):
                log.error("job failed after its caller was cancelled", error=str(result.error))
        if self._waiting:
            self._start()
        else:
            self._busy = False


def perform_each(batch: Sequence[Pending[Callable[[], Any], Any]]) -> None:
    """Run each job of a batch, whether the others fail or not. For a batcher whose items are jobs."""
    for pending in batch:
        pending.result = outcome.capture(pending.item)


def together(jobs: Sequence[Callable[[], T]]) -> list[outcome.Outcome[T]]:
    """Run blocking jobs at the same time, up to `AT_ONCE` of them, and return their outcomes. One of them
    runs on the thread of the caller, so one job alone starts no thread."""
    outcomes: dict[int, outcome.Outcome[T]] = {}
    numbers = iter(range(len(jobs)))

    def work() -> None:
        for number in numbers:
            outcomes[number] = outcome.capture(jobs[number])

    helpers = [threading.Thread(target=work, daemon=True) for _ in range(min(len(jobs), AT_ONCE) - 1)]
    started = []
    with suppress(RuntimeError):  # the system has no room for more threads
        for helper in helpers:
            helper.start()
            started.append(helper)
    work()
    for helper in started:
        helper.join()
    return [outcomes[number] for number in range(len(jobs))]


async def finished(runner: Runner, job: Callable[[], T]) -> T:
    """Run `job` on the runner and wait for it. Return its result, or raise its exception. A task that is
    cancelled while waiting leaves at once; the job is still done completely, and its result is dropped."""
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
