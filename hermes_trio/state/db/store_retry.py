"""Retrying an operation until the store accepts it.

For results that must not be lost because the disk is full or the database is locked: the end of a turn, a
received message, the output of a background process.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

import trio

from ...base.errors import StoreError
from ...log import Log

T = TypeVar("T")

RETRY_AFTER = 30.0
"""Seconds between two attempts, where the caller names no other pause."""

log = Log(__name__)


async def stored(
    what: str,
    operation: Callable[[], Awaitable[T]],
    *,
    pause: float = RETRY_AFTER,
    on_change: Callable[[StoreError | None], object] | None = None,
    **fields: object,
) -> T:
    """Return the result of `operation`, retried every `pause` seconds for as long as it raises a
    `StoreError`. Other exceptions and cancellation pass through.

    The first failure logs `<what> not stored; retrying` with `fields`, the success after it logs
    `<what> stored after retrying`. `on_change` is called with every failure, and with None after
    that success.
    """
    failed = False
    while True:
        try:
            result = await operation()
        except StoreError as error:
            if not failed:
                log.error(f"{what} not stored; retrying", **fields, error=str(error))
            failed = True
            if on_change is not None:
                on_change(error)
        else:
            if failed:
                log.info(f"{what} stored after retrying", **fields)
                if on_change is not None:
                    on_change(None)
            return result
        await trio.sleep(pause)
