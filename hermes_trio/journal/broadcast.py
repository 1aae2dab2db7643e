"""What happens in all runs, told to whoever watches, as soon as it is in its journal and not before.

Everybody who watches has a list of their own. Who takes nothing from it for so long that it is full is cut
off: what they have is whole, and what comes behind it is in the journals, so they come again with a cursor.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import TypeVar

import outcome
import trio

from ..base.world import World
from ..host.loop.worker import Runner
from .record import Record

MOST_UNREAD = 4096

T = TypeVar("T")


class Subscription:
    """What happens from now on, for one who watches."""

    def __init__(self, most: int) -> None:
        self._unread: list[Record] = []
        self._most = most
        self._news = trio.Event()
        self.cut = False
        """Too slow: what comes behind the unread is not told here any more."""
        self.ended = False
        """Nothing comes behind the unread."""

    async def next(self) -> Sequence[Record]:
        """What has happened since it was asked for last, as soon as that is something. Nothing at all
        says that nothing more comes."""
        while True:
            await self.news()
            if (records := self.take()) or self.cut or self.ended:
                return records

    async def news(self) -> None:
        """Wait until there is something to take, or somebody has called `wake`."""
        await self._news.wait()
        if not self.cut and not self.ended:
            self._news = trio.Event()

    def take(self) -> Sequence[Record]:
        """What has happened since it was asked for last, be it nothing."""
        records, self._unread = self._unread, []
        return records

    def wake(self) -> None:
        """Let who waits for news look around."""
        self._news.set()

    def _tell(self, records: Sequence[Record]) -> None:
        if len(self._unread) + len(records) > self._most:
            self.cut = True
        if not self.cut:
            self._unread += records
        self.wake()

    def _end(self) -> None:
        self.ended = True
        self.wake()


class Broadcast:
    """Everybody who watches, and the order in which things happen."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._watches: set[Subscription] = set()
        self._of_run: dict[str, set[Subscription]] = {}
        self._written: deque[Sequence[Record]] = deque()
        self._last = 0.0
        self._over = False

    @property
    def watchers(self) -> int:
        """How many watch now."""
        return len(self._watches) + sum(map(len, self._of_run.values()))

    def moment(self) -> float:
        """Now, and never back: the moments of what happens in all runs are the order in which it happened,
        whatever the clock on the wall does."""
        self._last = max(self._world.time(), self._last)
        return self._last

    @contextmanager
    def watching(self, run_id: str | None = None, *, most: int = MOST_UNREAD) -> Iterator[Subscription]:
        """Watch all that happens, or one run alone, for as long as the block."""
        watch = Subscription(most)
        watches = self._watches if run_id is None else self._of_run.setdefault(run_id, set())
        watches.add(watch)
        if self._over:
            watch._end()
        try:
            yield watch
        finally:
            watches.discard(watch)
            if run_id is not None and not watches:
                self._of_run.pop(run_id, None)

    def written(self, appended: Iterable[Sequence[Record]]) -> None:
        """These, of one run, are in its journal. Called where they are written."""
        self._written.extend(appended)

    def end(self) -> None:
        """Nothing happens any more."""
        self._over = True
        for watch in (*self._watches, *chain(*self._of_run.values())):
            watch._end()

    def telling(self, runner: Runner) -> Runner:
        """A runner that tells behind each of its jobs what that has written."""

        def run(job: Callable[[], T], done: Callable[[outcome.Outcome[T]], object]) -> None:
            def tell(result: outcome.Outcome[T]) -> None:
                while self._written:
                    records = self._written.popleft()
                    for watch in chain(self._watches, self._of_run.get(records[0].run_id, ())):
                        watch._tell(records)
                done(result)

            runner(job, tell)

        return run
