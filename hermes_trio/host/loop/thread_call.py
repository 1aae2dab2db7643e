"""A blocking call in a thread, as a part of a task that can be cancelled.

No thread can be cancelled. A call that has not returned within a second after its task was cancelled is left
behind in its thread, and nobody waits for it. Code in the thread learns of the cancellation by
`trio.from_thread.check_cancelled()`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

import trio

from ...log import Log
from .outsiders import Outsider

STOPS_WITHIN = 1.0
"""Seconds for a call to notice that its task was cancelled. After that its thread is left behind."""

T = TypeVar("T")

log = Log(__name__)


async def call_in_thread(
    function: Callable[[], T],
    name: str,
    *,
    outsider: Outsider | None = None,
    on_cancel: Callable[[], object] = lambda: None,
) -> T:
    """Call a function in a thread, and return its result. When this is cancelled, `on_cancel` is called, and
    the call has `STOPS_WITHIN` seconds to return. `name` is for the log; `outsider` is the code in the
    thread, if it calls into Trio."""
    returned = trio.Event()
    token = trio.lowlevel.current_trio_token()

    def in_thread() -> T:
        try:
            return function()
        finally:
            with suppress(trio.RunFinishedError):  # it was left behind, and Trio has ended
                token.run_sync_soon(returned.set)

    # Without a limit: a thread that is left behind takes no place from others.
    limiter = trio.CapacityLimiter(math.inf)
    try:
        with (outsider or Outsider()).working():
            return await trio.to_thread.run_sync(in_thread, abandon_on_cancel=True, limiter=limiter)
    except trio.Cancelled:
        on_cancel()
        with trio.move_on_after(STOPS_WITHIN, shield=True) as patience:
            await returned.wait()
        if patience.cancelled_caught:
            log.warning("thread left behind; its call does not return", call=name)
        raise
