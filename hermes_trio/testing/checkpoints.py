"""Doing something, a cancellation mostly, at one of the checkpoints of others, whichever it is."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

import outcome
import trio


class Countdown(trio.abc.Instrument):
    """Does something when tasks have come to a halt for the n-th time."""

    def __init__(
        self, halts: int, act: Callable[[], object], whose: Callable[[trio.lowlevel.Task], bool]
    ) -> None:
        self._halts, self._act, self._whose = halts, act, whose
        self._came: outcome.Maybe[object] | None = None

    @property
    def is_over(self) -> bool:
        """Whether there were so many halts."""
        return not self._halts

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        if self._halts and self._whose(task):
            self._halts -= 1
            if not self._halts:
                self._came = outcome.capture(self._act)  # Trio would only log what an instrument raises

    def check(self) -> None:
        """Raise what the act raised, if it did."""
        if self._came is not None:
            self._came.unwrap()


@contextmanager
def at_halt(
    number: int, act: Callable[[], object], *, whose: Callable[[trio.lowlevel.Task], bool]
) -> Iterator[Countdown]:
    """Do `act` in the moment in which these tasks come to a halt for the n-th time within the block."""
    countdown = Countdown(number, act, whose)
    trio.lowlevel.add_instrument(countdown)
    try:
        yield countdown
    finally:
        trio.lowlevel.remove_instrument(countdown)
    countdown.check()


async def cancelled_at(halt: int, action: Callable[[], Awaitable[object]]) -> bool:
    """Do it, and cancel it at its n-th checkpoint. Whether that made a difference."""
    me = trio.lowlevel.current_task()
    with trio.CancelScope() as scope, at_halt(halt, scope.cancel, whose=lambda task: task is me):
        await action()
    return scope.cancelled_caught
