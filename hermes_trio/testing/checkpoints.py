"""Actions, mostly cancellations, at the n-th checkpoint of other tasks."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

import outcome
import trio


class Countdown(trio.abc.Instrument):
    """Calls a function when the watched tasks have stopped at a checkpoint for the n-th time."""

    def __init__(
        self, halts: int, act: Callable[[], object], whose: Callable[[trio.lowlevel.Task], bool]
    ) -> None:
        self._halts, self._act, self._whose = halts, act, whose
        self._outcome: outcome.Maybe[object] | None = None

    @property
    def is_over(self) -> bool:
        """Return True once the function was called."""
        return not self._halts

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        if self._halts and self._whose(task):
            self._halts -= 1
            if not self._halts:
                self._outcome = outcome.capture(self._act)  # Trio only logs the exceptions of instruments

    def check(self) -> None:
        """Raise the exception of the function, if it raised one."""
        if self._outcome is not None:
            self._outcome.unwrap()


@contextmanager
def at_halt(
    number: int, act: Callable[[], object], *, whose: Callable[[trio.lowlevel.Task], bool]
) -> Iterator[Countdown]:
    """Call `act` when the tasks of `whose` stop at a checkpoint for the n-th time within the block."""
    countdown = Countdown(number, act, whose)
    trio.lowlevel.add_instrument(countdown)
    try:
        yield countdown
    finally:
        trio.lowlevel.remove_instrument(countdown)
    countdown.check()


async def cancelled_at(halt: int, action: Callable[[], Awaitable[object]]) -> bool:
    """Run `action` and cancel it at its n-th checkpoint. Return True if that ended it."""
    this_task = trio.lowlevel.current_task()
    with trio.CancelScope() as scope, at_halt(halt, scope.cancel, whose=lambda task: task is this_task):
        await action()
    return scope.cancelled_caught
