"""Counts the jobs of the worker threads: commits and reads of the store, and the jobs of the journals."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import outcome

from hermes_trio.host.loop.worker import Runner, Worker


class Cost(NamedTuple):
    """Jobs of the worker threads."""

    commits: int
    reads: int
    journal: int
    """Jobs of the journals: one opens the file, one writes each piece of the answer and each
    begin and end of a tool, one writes the last record."""


class JobCounts:
    """A worker that counts its jobs by the name of its thread."""

    def __init__(self, usual: Worker) -> None:
        self._usual = usual
        self._counts: Counter[str] = Counter()

    @contextmanager
    def worker(self, name: str) -> Iterator[Runner]:
        with self._usual(name) as runner:

            def counting(job: Callable[[], Any], done: Callable[[outcome.Outcome[Any]], object]) -> None:
                self._counts[name] += 1
                runner(job, done)

            yield counting

    def looks(self) -> int:
        """Return the number of looks at the processes of the machine since the last call."""
        return self._counts.pop("sender", 0)

    def take(self) -> Cost:
        """Return the jobs since the last call."""
        counts, self._counts = self._counts, Counter()
        return Cost(
            counts["store-writer"],
            counts["store-reader"],
            counts["journal-writer"] + counts["journal-reader"],
        )
