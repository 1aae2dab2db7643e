"""Garbage in our own program is collected when memory has grown, and never by Python itself."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial

import pytest
import trio
from trio.testing import MockClock

from hermes_trio.host.loop.garbage import LOOK_EVERY, collect_garbage

GROWTH = 20_000
"""Blocks; many more than the test itself needs meanwhile."""


@pytest.fixture(autouse=True)
def _collector_as_before() -> Iterator[None]:
    yield
    gc.enable()
    gc.unfreeze()


@dataclass
class Circle:
    """An object that refers to itself."""

    load: list[object] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.load.append(self)


def dropped_circle(blocks: int = 0) -> weakref.ref[Circle]:
    """Make a circle with so many blocks that nothing refers to."""
    circle = Circle()
    circle.load.extend(object() for _ in range(blocks))
    return weakref.ref(circle)


async def test_garbage_is_collected_when_memory_has_grown(autojump_clock: MockClock) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(collect_garbage, lambda: GROWTH)
        await trio.sleep(LOOK_EVERY / 2)
        small = dropped_circle()
        await trio.sleep(LOOK_EVERY * 100)
        assert small() is not None, "a little garbage waits"
        large = dropped_circle(2 * GROWTH)
        await trio.sleep(LOOK_EVERY)
        assert (small(), large()) == (None, None)
        nursery.cancel_scope.cancel()


async def test_garbage_waits_while_its_collection_would_delay_somebody(autojump_clock: MockClock) -> None:
    allowed = 100.0 * GROWTH
    async with trio.open_nursery() as nursery:
        nursery.start_soon(collect_garbage, lambda: allowed)
        await trio.sleep(LOOK_EVERY / 2)
        garbage = dropped_circle(2 * GROWTH)
        await trio.sleep(LOOK_EVERY * 100)
        assert garbage() is not None
        allowed = GROWTH
        await trio.sleep(LOOK_EVERY)
        assert garbage() is None
        nursery.cancel_scope.cancel()


async def test_memory_that_was_freed_in_between_may_be_garbage_later(autojump_clock: MockClock) -> None:
    """The growth counts from the lowest level, not from that of the last collection."""
    async with trio.open_nursery() as nursery:
        used = [object() for _ in range(3 * GROWTH)]
        nursery.start_soon(collect_garbage, partial(float, GROWTH))
        await trio.sleep(LOOK_EVERY * 1.5)
        used.clear()
        await trio.sleep(LOOK_EVERY)
        garbage = dropped_circle(2 * GROWTH)
        await trio.sleep(LOOK_EVERY)
        assert garbage() is None
        nursery.cancel_scope.cancel()
