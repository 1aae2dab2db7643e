"""The objects that only the garbage collector frees, because they refer to each other."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

OURS, OF_TESTS = ("hermes_trio.", "hermes_platforms."), "hermes_trio.testing."


@contextmanager
def cyclic_garbage() -> Iterator[Counter[str]]:
    """Count the objects of our own types that become garbage in the block and are not freed at once."""
    counts = Counter[str]()
    gc.collect()
    gc.disable()
    try:
        yield counts
        gc.set_debug(gc.DEBUG_SAVEALL)
        gc.collect()
        names = (f"{type(one).__module__}.{type(one).__qualname__}" for one in gc.garbage)
        counts.update(name for name in names if name.startswith(OURS) and not name.startswith(OF_TESTS))
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()
