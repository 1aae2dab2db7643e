"""One disk for all tests: the worker of a database or of run journals that is fast, slow, hanging or late."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

import outcome
import trio

from hermes_trio.host.loop.worker import Runner, inline_worker

Done = Callable[[outcome.Outcome[Any]], object]
Job = tuple[Callable[[], Any], Done]


class Disk:
    """A disk that does its jobs at once, or that can be made slow, hang or answer late.

    `Disk().worker` and `Disk(nursery).worker` are workers for `open_database` and `open_journals`. With a
    nursery each job takes `seconds` of Trio's clock; `math.inf` is a disk that never answers again.
    """

    def __init__(self, nursery: trio.Nursery | None = None) -> None:
        self.seconds = 0.0
        """The duration of each job, on a disk with a nursery."""
        self.hangs = False
        """True while jobs are held; they are done when the disk recovers, or never."""
        self.answers_late = False
        """True while jobs are done at once, but reported only when the disk recovers."""
        self.jobs: list[Job] = []
        """All jobs, kept: objects that a job refers to live as long as the disk."""
        self._nursery = nursery
        self._held: deque[Callable[[], None]] = deque()

    @contextmanager
    def worker(self, name: str) -> Iterator[Runner]:
        with self._slow_worker(name) if self._nursery else inline_worker(name) as usual:

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
            await trio.sleep(self.seconds)
            done(outcome.capture(job))
