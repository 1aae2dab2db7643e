"""Trio as a guest of asyncio: both take turns in one thread, on the loop of the program.

There is at most one guest run on a loop. Everything that needs it joins it, and the last one to leave ends
it. The loop waits for Trio's input and output too (`LoopWait`); where it cannot, a thread of Trio does.

Results, errors, cancellations and context variables cross in both directions. A cancellation in asyncio
cancels the Trio side, and is raised when that has ended.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack, asynccontextmanager, suppress
from typing import Any

import outcome
import trio
from trio.lowlevel import RunVar, in_trio_run

from .asyncio_calls import AsyncioCalls, wait_for

BURST = 0.001
"""Seconds for which Trio goes on in one step of the loop, while it has something to do. A step of asyncio
costs about as much as one of Trio, and a turn takes some seventy of these."""


Step = Callable[[], object]


class LoopWait:
    """Waits on the loop for whatever the guest run waits for. Trio has a thread for that, so whatever comes
    changes threads on its way to Trio: some thirty times in a turn.

    Trio has no interface for this. A `LoopWait` takes the place of the run in Trio's `GuestState`, which it
    tells never to wait. Raises AttributeError where Trio is built in another way, as on macOS and Windows,
    and NotImplementedError for a loop that cannot watch files; nothing has changed then.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, step: Any, go_on: Callable[[Step], None]) -> None:
        """`step` is the first one of the run; `go_on` takes it whenever a wait is over."""
        self._loop, self._step, self._go_on = loop, step, go_on
        self._state = step.__self__
        self._runner, self._run = self._state.runner, self._state.unrolled_run_gen
        self._seconds = 0.0
        """For how long Trio would wait after the last step."""
        self._timer: asyncio.TimerHandle | None = None
        """Ends the wait, while there is one."""
        with ExitStack() as undo:
            # Of our own, because the run closes its own before it tells that it has ended.
            poll = os.dup(self._runner.io_manager._epoll.fileno())
            undo.callback(os.close, poll)
            loop.add_reader(poll, self._over)
            undo.callback(loop.remove_reader, poll)
            self.close = undo.pop_all().close
        self._state.unrolled_run_gen = self

    def send(self, events: object) -> float:
        """Run what can run, for `GuestState`."""
        self._seconds = self._run.send(events)
        return 0.0

    def throw(self, error: BaseException) -> float:
        """Let the run fail, for `GuestState`."""
        self._seconds = self._run.throw(error)
        return 0.0

    def begins(self) -> bool:
        """Begin to wait, if Trio has nothing to do. Return whether it is so."""
        events = self._state.unrolled_run_next_send
        if self._seconds <= 0 or isinstance(events, outcome.Error) or events.value:
            return False
        # So that a task of Trio which the program wakes makes the poll object readable.
        self._runner.guest_tick_scheduled = False
        self._timer = self._loop.call_later(self._seconds, self._over)
        return True

    def _over(self) -> None:
        if self._timer is None:
            return  # something has come while Trio runs; its next step sees it
        self._timer.cancel()
        self._timer = None
        self._runner.guest_tick_scheduled = True
        self._state.unrolled_run_next_send = outcome.capture(self._runner.io_manager.get_events, 0)
        self._go_on(self._step)


class Guest(AsyncioCalls):
    """A guest run of Trio on the loop of asyncio that runs now."""

    def __init__(self, clock: trio.abc.Clock | None) -> None:
        super().__init__(asyncio.get_running_loop())
        self.users = 0
        """Number of blocks that have joined it. Without any it ends."""
        self.up: asyncio.Future[None] = self.loop.create_future()
        self.ended: asyncio.Future[outcome.Outcome[None]] = self.loop.create_future()
        self._unused = trio.Event()
        self._wait: LoopWait | None = None
        self._is_in_step = True
        self._next: Step | None = None
        """The step that follows the one which runs; at first the first one."""
        trio.lowlevel.start_guest_run(
            self._main,
            run_sync_soon_threadsafe=self.loop.call_soon_threadsafe,
            run_sync_soon_not_threadsafe=self._soon,
            done_callback=self._end,
            host_uses_signal_set_wakeup_fd=True,
            clock=clock,
        )
        with suppress(AttributeError, NotImplementedError):
            self._wait = LoopWait(self.loop, self._next, self._go_on)
        self.loop.call_soon(self._go_on, self._next)
        _OF_RUN.set(self)

    def _end(self, result: outcome.Outcome[None]) -> None:
        if self._wait is not None:
            self._wait.close()
        self.ended.set_result(result)

    def _soon(self, step: Step) -> None:
        if self._wait is not None and self._wait.begins():
            return
        if self._is_in_step:
            self._next = step
        else:
            self.loop.call_soon(self._go_on, step)

    def _go_on(self, step: Step | None) -> None:
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
