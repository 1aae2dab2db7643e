"""Trio as a guest of asyncio: both take turns in one thread, on the loop of the program.

There is at most one guest run on a loop. Everything that needs it joins it, and the last one to leave ends
it. Trio waits for input and output in a thread of its own cache; no other thread is started.

Results, errors, cancellations and context variables cross in both directions. A cancellation in asyncio
cancels the Trio side, and is raised when that has ended.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import outcome
import trio
from trio.lowlevel import RunVar, in_trio_run

from .asyncio_calls import AsyncioCalls, wait_for

BURST = 0.001
"""Seconds for which Trio goes on in one step of the loop, while it has something to do. A step of asyncio
costs about as much as one of Trio, and a turn takes some seventy of these."""


class Guest(AsyncioCalls):
    """A guest run of Trio on the loop of asyncio that runs now."""

    def __init__(self, clock: trio.abc.Clock | None) -> None:
        super().__init__(asyncio.get_running_loop())
        self.users = 0
        """Number of blocks that have joined it. Without any it ends."""
        self.up: asyncio.Future[None] = self.loop.create_future()
        self.ended: asyncio.Future[outcome.Outcome[None]] = self.loop.create_future()
        self._unused = trio.Event()
        self._is_in_step = False
        self._next: Callable[[], object] | None = None
        """The step that follows the one which runs."""
        trio.lowlevel.start_guest_run(
            self._main,
            run_sync_soon_threadsafe=self.loop.call_soon_threadsafe,
            run_sync_soon_not_threadsafe=self._soon,
            done_callback=self.ended.set_result,
            host_uses_signal_set_wakeup_fd=True,
            clock=clock,
        )
        _OF_RUN.set(self)

    def _soon(self, step: Callable[[], object]) -> None:
        if self._is_in_step:
            self._next = step
        else:
            self.loop.call_soon(self._go_on, step)

    def _go_on(self, step: Callable[[], object] | None) -> None:
        """Take this step, and those that follow it, for a moment."""
        until = self.loop.time() + BURST
        self._is_in_step = True
        try:
            while step is not None and self.loop.time() < until:
                self._next = None
                step()
                step = self._next
        finally:
            self._is_in_step = False
        if step is not None:
            self.loop.call_soon(self._go_on, step)

    async def _main(self) -> None:
        async with trio.open_nursery() as nursery:
            self.open(nursery)
            self.up.set_result(None)
            await self._unused.wait()

    @property
    def is_leaving(self) -> bool:
        return self._unused.is_set()

    async def leave(self) -> None:
        """Leave the run; the last one waits until it has ended."""
        self.users -= 1
        if self.users == 0:
            self._unused.set()
            await wait_for(self.ended)
            self.ended.result().unwrap()


_OF_RUN: RunVar[Guest | None] = RunVar("hermes_trio guest", None)
"""The guest of the run of Trio in this thread."""


@asynccontextmanager
async def join_guest(clock: trio.abc.Clock | None = None) -> AsyncIterator[Guest]:
    """Join the guest run on the loop of this task during the block; start it, with this clock, if there is
    none."""
    guest = running_guest()
    while guest is not None and guest.is_leaving:
        await asyncio.wait([guest.ended])
        guest = running_guest()
    guest = guest or Guest(clock)
    guest.users += 1
    try:
        await asyncio.wait([guest.up])
        yield guest
    finally:
        await guest.leave()  # noqa: ASYNC102 - it shields its awaits


def running_guest() -> Guest | None:
    """Return the guest in this thread, if Trio runs here as one of ours."""
    return _OF_RUN.get() if in_trio_run() else None
