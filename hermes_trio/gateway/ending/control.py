"""The one place where it is decided that the gateway ends.

Whoever wants it to end (a signal, a marker file, `/restart`, the API, the program that embeds it) asks
here. Nobody is cancelled by that: the ending is a value that one task waits for. The first cause wins,
except that a stop turns a restart into a stop.
"""

from __future__ import annotations

import math

import trio

from .endings_table import MARGIN, Ending, combined


class Control:
    """Holds the ending, once there is one."""

    def __init__(self) -> None:
        self._ending: Ending | None = None
        self.asked_at = math.inf
        """When an ending was asked for first: the grace is counted from here."""
        self.end_by = math.inf
        """When all must be over, whatever hangs: nobody's patience may go beyond it."""
        self._decided = trio.Event()
        self._changed = trio.Event()
        self._hurried = trio.Event()
        self._turned = trio.Event()
        self.held = False
        """Whether somebody asked from outside that no turn begins for now."""
        self.quiet = False
        """Whether whoever asked for that wants no home channel to hear of an ending."""

    @property
    def current(self) -> Ending | None:
        """The ending that counts now; None while the gateway is to go on."""
        return self._ending

    def ask(self, ending: Ending, *, at: float | None = None) -> bool:
        """Ask for an ending; `at` is when the request came, if that was before now. Return False if another
        one counts already."""
        before, self._ending = self._ending, combined(self._ending, ending)
        if self._ending is before:
            return False
        self.asked_at = min(self.asked_at, trio.current_time() if at is None else at)
        cut_at = max(self.asked_at + self._ending.grace, trio.current_time())
        self.end_by = min(self.end_by, cut_at + MARGIN)
        self._decided.set()
        self._changed.set()
        self._changed = trio.Event()
        return True

    def hurry(self) -> None:
        """Let no turn go on any longer: somebody asked a second time, by hand."""
        self._hurried.set()
        self.end_by = min(self.end_by, trio.current_time() + MARGIN)
        self._changed.set()
        self._changed = trio.Event()

    async def ending(self) -> Ending:
        """Wait until the gateway is to end, and why."""
        await self._decided.wait()
        assert self._ending is not None  # noqa: S101 - that is what was decided
        return self._ending

    async def changed(self, since: Ending) -> Ending:
        """Wait until another ending counts than this one."""
        while self._ending is since:
            await self._changed.wait()
        assert self._ending is not None  # noqa: S101 - it changed to something
        return self._ending

    async def ends_before(self, time: float) -> None:
        """Wait until all must be over earlier than that."""
        while self.end_by >= time:
            await self._changed.wait()

    async def hurried(self) -> None:
        """Wait until somebody cannot wait."""
        await self._hurried.wait()

    def hold(self, held: bool, *, quiet: bool = False) -> None:
        """Let no turn begin for now, or let turns begin again. An ending is stronger than this."""
        self.quiet = quiet
        if held is not self.held:
            self.held = held
            self._turned.set()
            self._turned = trio.Event()

    async def turned(self, since: bool) -> None:
        """Wait until it is held, or is not, where it was otherwise."""
        while self.held is since:
            await self._turned.wait()
