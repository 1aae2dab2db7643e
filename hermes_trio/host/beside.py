"""A task beside a block, for as long as the block."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import trio


@asynccontextmanager
async def beside(job: Callable[[], Awaitable[object]]) -> AsyncIterator[None]:
    """Run `job` while the block runs and cancel it with the block.

    What the block raises leaves it as it is. A nursery would wrap it in a group, and a caller who sees a
    process or a guard, and no nursery, does not write `except*`. So the exception goes around the
    nursery. An error of the job itself is a mistake of ours: it cancels the block and leaves in a group.
    """
    raised: BaseException | None = None
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(job)
            try:
                yield
            except BaseException as error:  # raised again below, on every way out
                raised = error
            nursery.cancel_scope.cancel(reason="the block beside is left")
    except trio.Cancelled:  # the job's: somebody cancels around both
        if raised is None or isinstance(raised, trio.Cancelled):
            raise
    if raised is not None:
        raise raised
