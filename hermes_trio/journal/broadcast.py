"""Live events of all runs for their subscribers. The journals publish them here once they are in their file.

Each subscriber has its own list of unread events. When the list of a slow one is full, the subscriber is cut
off: its list is complete up to there, the later events are in the journals, and it can continue with a
cursor.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import chain

from ..base.pulse import Wakeup
from .record import Record

MOST_UNREAD = 4096


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
    """All subscriptions."""

    def __init__(self) -> None:
        self.watchers = 0
        """The number of subscriptions."""
        self._of_all: set[Subscription] = set()
        self._of_run: dict[str, set[Subscription]] = {}
        self._over = False

    @contextmanager
    def watching(self, run_id: str | None = None, *, most: int = MOST_UNREAD) -> Iterator[Subscription]:
        """Subscribe to the events of all runs, or of one run, while the block lasts."""
        subscription = Subscription(most)
        group = self._of_all if run_id is None else self._of_run.setdefault(run_id, set())
        group.add(subscription)
        self.watchers += 1
        if self._over:
            subscription._end()
        try:
            yield subscription
        finally:
            self.watchers -= 1
            group.discard(subscription)
            if run_id is not None and not group:
                self._of_run.pop(run_id, None)

    def publish(self, records: Sequence[Record]) -> None:
        """Pass records of one run, which are in their journal now, to their subscribers."""
        for subscription in chain(self._of_all, self._of_run.get(records[0].run_id, ())):
            subscription._add(records)

    def end(self) -> None:
        """End all subscriptions, present and future: there are no more events."""
        self._over = True
        for subscription in (*self._of_all, *chain(*self._of_run.values())):
            subscription._end()
