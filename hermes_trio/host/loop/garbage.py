"""The garbage collector of Python, in a process that belongs to our own program.

Python frees nearly everything as soon as nothing refers to it. The collector is for objects that refer to
each other, and a turn leaves none of these. Left to itself it looks at the objects of all running turns,
again and again, and holds the loop for 50 ms each time. So it does not start by itself here, but when memory
has grown, and earlier when that delays nobody.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable

import trio

LOOK_EVERY = 2.0
GROWN = 100_000
"""Blocks of memory, of some 80 bytes each, that may be garbage."""
GROWN_MUCH = 1_000_000
"""Blocks that are more than a thousand turns need."""


async def collect_garbage(allowed: Callable[[], float]) -> None:
    """Collect garbage whenever memory has grown by more blocks than `allowed` returns then, until cancelled.
    What exists now is not looked at again: it lives as long as the process. After this the collector stays
    off."""
    gc.collect()
    gc.freeze()
    gc.disable()
    least = sys.getallocatedblocks()
    while True:
        await trio.sleep(LOOK_EVERY)
        blocks = sys.getallocatedblocks()
        least = min(least, blocks)
        if blocks - least > allowed():
            gc.collect()
            least = sys.getallocatedblocks()
