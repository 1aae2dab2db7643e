"""Tasks beside a block of code, in a context manager."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import trio


@asynccontextmanager
async def open_beside(reason: str) -> AsyncIterator[trio.Nursery]:
    """Open a nursery whose tasks are cancelled at the end of the block. An exception of the caller's block
    leaves it as it was raised, and not in a group: the nursery is no business of the caller."""
    raised = None
    async with trio.open_nursery() as nursery:
        try:
            yield nursery
        except Exception as error:  # of any kind: the nursery would put it into a group
            raised = error
        finally:
            nursery.cancel_scope.cancel(reason=reason)
    if raised is not None:
        raise raised
