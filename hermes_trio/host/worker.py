"""Work that blocks, done in order by somebody else.

A `Runner` takes one job after another and never two at once, so whatever its jobs touch (a database
connection, the files of the journals) has one owner without any lock. `worker_thread` is the real one:
a daemon thread, so that a disk that hangs can never keep the process alive. `inline_worker` does the
job on the spot: Trio's auto-jumping test clock does not wait for threads. A test that wants a slow, a
hung or a dying disk gives a runner of its own; that is the only seam there is.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from queue import SimpleQueue
from typing import Any, Protocol, TypeVar

import outcome
import trio

T = TypeVar("T")


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
