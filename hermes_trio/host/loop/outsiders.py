"""Code outside of Trio, and the virtual clock of a test.

A virtual clock jumps when Trio has nothing to do. But an agent on asyncio or in a thread may work just then,
and so may the program of the test itself, and their waits are real. So the clock stands still while any of
them works. It may jump while each of them waits for a call into Trio.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from trio.lowlevel import RunVar

if TYPE_CHECKING:
    from trio.testing import MockClock


class HeldClock:
    """A virtual clock that stands still while code outside of Trio works."""

    def __init__(self, clock: MockClock) -> None:
        self._clock, self._threshold, self._working = clock, clock.autojump_threshold, 0

    def add(self, working: int) -> None:
        """Note that so many more outsiders work."""
        self._working += working
        self._clock.autojump_threshold = math.inf if self._working else self._threshold


HELD_CLOCK: RunVar[HeldClock | None] = RunVar("hermes_trio held clock", None)
"""The virtual clock of this run of Trio, if outsiders hold it."""


class Outsider:
    """A program or an agent outside of Trio, which calls into it. Its methods are called in the thread of
    Trio."""

    def __init__(self) -> None:
        self._blocks = self._calls = 0

    @contextmanager
    def working(self) -> Iterator[None]:
        """Hold the clock during the block, except while the outsider waits for a call."""
        self._note(blocks=1)
        try:
            yield
        finally:
            self._note(blocks=-1)

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Note a call for which the outsider waits during the block."""
        self._note(calls=1)
        try:
            yield
        finally:
            self._note(calls=-1)

    def _note(self, *, blocks: int = 0, calls: int = 0) -> None:
        worked = self._works
        self._blocks += blocks
        self._calls += calls
        clock = HELD_CLOCK.get()
        if clock is not None and self._works != worked:
            clock.add(self._works - worked)

    @property
    def _works(self) -> bool:
        return self._blocks > 0 and self._calls == 0
