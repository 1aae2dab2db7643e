"""Snapshots of all processes, shared by the tasks that need one at the same time."""

from __future__ import annotations

from contextlib import suppress

import trio

from .sweep import THIS_SYSTEM, ProcessTable, System

REST = 9
"""The pause after a look, as a multiple of the time that the look took."""
LONGEST_REST = 0.05
AHEAD = 0.03
"""Seconds of pauses that may be left out at first: what was ending at one look is gone at the next."""


class Lookout:
    """Looks at all processes for all tasks that ask.

    A look takes time for each process of the machine, and a drain of 200 turns asks for 200 looks at once. So
    tasks that ask while a look is due share it, and looks that go on have pauses between them.
    """

    def __init__(self, system: System = THIS_SYSTEM) -> None:
        self._system = system
        self._turn = trio.Lock()
        self._asked = self._answered = 0
        self._rested = 0.0
        """When the pauses of all looks so far are over."""
        self._table: ProcessTable | None = None

    async def look(self) -> ProcessTable:
        """Return a snapshot of all processes that was taken after this call."""
        self._asked += 1
        mine = self._asked
        async with self._turn:
            if self._table is None or self._answered < mine:
                await trio.sleep_until(self._rested - AHEAD)
                self._answered = self._asked
                begun = trio.current_time()
                self._table = await self._looked()
                took = trio.current_time() - begun
                self._rested = max(self._rested, begun) + took + min(LONGEST_REST, REST * took)
            return self._table

    async def _looked(self) -> ProcessTable:
        """Look, and retry while the machine has no descriptor left; the caller has a deadline."""
        while True:
            with suppress(OSError):
                return self._system.look()
            await trio.sleep(LONGEST_REST)
