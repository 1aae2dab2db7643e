"""A task beside a block, for as long as the block."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import trio


@asynccontextmanager
async def beside(job: Callable[[], Awaitable[object]]) -> AsyncIterator[None]:
    """Run `job` while the block runs and cancel it with the block.

    What the block raises leaves it as it is. A nursery would wrap it in a group, and a caller who sees a
    process or a guard, and no nursery, does not write `except*`. An error of the job itself is a mistake
    of ours: it cancels the block and leaves in a group, with what the block raised.
    """
    raised: BaseException | None = None
    failed = False

    async def run() -> None:
        nonlocal failed
        try:
            await job()
        except BaseException as error:
            failed = not _is_cancelled(error)
            raise

    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(run)
            try:
                yield
            except BaseException as error:
                raised = error
                raise
            nursery.cancel_scope.cancel(reason="the block beside is left")
    except BaseExceptionGroup:
        if raised is None or failed:
            raise
        context = raised.__context__
        try:
            raise raised
        finally:
            raised.__context__ = context  # not the group that it was taken out of


def _is_cancelled(error: BaseException) -> bool:
    if isinstance(error, BaseExceptionGroup):
        return error.split(trio.Cancelled)[1] is None
    return isinstance(error, trio.Cancelled)
