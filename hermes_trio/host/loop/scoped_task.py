"""A task that runs beside a block and ends with it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import trio


@asynccontextmanager
async def beside(job: Callable[[], Awaitable[object]]) -> AsyncIterator[None]:
    """Run `job` while the block runs and cancel it with the block.

    An exception of the block is raised bare. A nursery would wrap it in a group, and a caller that sees a
    process or a guard, and no nursery, does not write `except*`. An error of the job itself is a bug of ours:
    it cancels the block and is raised in a group, together with the exception of the block.
    """
    raised: BaseException | None = None
    failed = False

    async def run() -> None:
        nonlocal failed
        try:
            await job()
        except BaseException as error:
            failed = not is_cancelled(error)
            raise

    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(run)
            try:
                yield
            except BaseException as error:
                raised = error
                raise
            nursery.cancel_scope.cancel(reason="the block beside it is left")
    except BaseExceptionGroup:
        if raised is None or failed:
            raise
        context = raised.__context__
        try:
            raise raised
        finally:
            raised.__context__ = context  # without the group that it was taken from


def is_cancelled(error: BaseException) -> bool:
    if isinstance(error, BaseExceptionGroup):
        return error.split(trio.Cancelled)[1] is None
    return isinstance(error, trio.Cancelled)
