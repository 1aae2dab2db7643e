"""Live events of all runs for their subscribers, published once they are in their journal and not before.

Each subscriber has its own list of unread events. When the list of a slow one is full, the subscriber is cut
off: its list is complete up to there, the later events are in the journals, and it can continue with a
cursor.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import TypeVar

import outcome

from ..base.pulse import Wakeup
from ..base.world import World
from ..host.loop.worker import Runner
from .record import Record

MOST_UNREAD = 4096

T = TypeVar("T")


class Subscription:
    """The unread events of one subscriber, from its start on."""

    def __init__(self, most: int) -> None:
        self._unread: list[Record] = []
        self._most = most
        self._news = Wakeup()
        self.cut = False
        """True for a subscriber that was too slow: it gets no events after the unread ones."""
        self.ended = False
        """True when there will be no events after the unread ones."""

    async def next(self) -> Sequence[Record]:
        """Wait for unread events; return and remove them. An empty result means that no more will come."""
        while True:
            await self.news()
            if (records := self.take()) or self.cut or self.ended:
                return records

    async def news(self) -> None:
        """Wait until there are unread events, or `wake` was called."""
        await self._news.wait()
        if not self.cut and not self.ended:
            self._news.clear()

    def take(self) -> Sequence[Record]:
        """Return and remove the unread events, without waiting."""
        records, self._unread = self._unread, []
        return records

    def wake(self) -> None:
        """Wake the task that waits in `news`."""
        self._news.set()

    def _add(self, records: Sequence[Record]) -> None:
        if len(self._unread) + len(records) > self._most:
            self.cut = True
        if not self.cut:
            self._unread += records
        self.wake()

    def _end(self) -> None:
        self.ended = True
        self.wake()


class Broadcast:
    """All subscriptions, and the clock that orders the events of all runs."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._of_all: set[Subscription] = set()
        self._of_run: dict[str, set[Subscription]] = {}
        self._written: deque[Sequence[Record]] = deque()
        self._last = 0.0
        self._over = False

    @property
    def watchers(self) -> int:
        """The number of subscriptions."""
        return len(self._of_all) + sum(map(len, self._of_run.values()))

    def moment(self) -> float:
        """Return the current time, never less than before: the times of events give their order in all runs,
        even if the system clock is set back."""
        self._last = max(self._world.time(), self._last)
        return self._last

    @contextmanager
    def watching(self, run_id: str | None = None, *, most: int = MOST_UNREAD) -> Iterator[Subscription]:
        """Subscribe to the events of all runs, or of one run, while the block lasts."""
        subscription = Subscription(most)
        group = self._of_all if run_id is None else self._of_run.setdefault(run_id, set())
        group.add(subscription)
        if self._over:
            subscription._end()
        try:
            yield subscription
        finally:
            group.discard(subscription)
            if run_id is not None and not group:
                self._of_run.pop(run_id, None)

    def written(self, appended: Iterable[Sequence[Record]]) -> None:
        """Note records that are in their journal now, each batch of one run. Called by the writing thread."""
        self._written.extend(appended)

    def end(self) -> None:
        """End all subscriptions, present and future: there are no more events."""
        self._over = True
        for subscription in (*self._of_all, *chain(*self._of_run.values())):
            subscription._end()

    def publishing(self, runner: Runner) -> Runner:
        """Return `runner`, extended to publish after each job the records that the job has written."""

        def run(job: Callable[[], T], done: Callable[[outcome.Outcome[T]], object]) -> None:
            def publish(result: outcome.Outcome[T]) -> None:
                while self._written:
                    records = self._written.popleft()
                    for subscription in chain(self._of_all, self._of_run.get(records[0].run_id, ())):
                        subscription._add(records)
                done(result)

            runner(job, publish)

        return run
