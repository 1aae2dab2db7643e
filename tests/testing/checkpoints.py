"""Cancelling something at one of its checkpoints, whichever it is."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import trio


class _Countdown(trio.abc.Instrument):
    """Cancels a scope when a task has come to a halt for the n-th time."""

    def __init__(self, task: trio.lowlevel.Task, halts: int, scope: trio.CancelScope) -> None:
        self._task, self._halts, self._scope = task, halts, scope

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        if task is self._task:
            self._halts -= 1
            if self._halts == 0:
                self._scope.cancel()


async def cancelled_at(halt: int, action: Callable[[], Awaitable[object]]) -> bool:
    """Do it, and cancel it at its n-th checkpoint. Whether that made a difference."""
    with trio.CancelScope() as scope:
        countdown = _Countdown(trio.lowlevel.current_task(), halt, scope)
        trio.lowlevel.add_instrument(countdown)
        try:
            await action()
        finally:
            trio.lowlevel.remove_instrument(countdown)
    return scope.cancelled_caught
