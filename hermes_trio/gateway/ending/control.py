"""The decision that the gateway ends, and the request to hold it.

A signal, a marker file, `/restart`, the API and the program that embeds the gateway all request the ending
here. A request cancels nothing: the ending is a value that one task waits for. The first cause applies,
except that a stop turns a restart into a stop. This module touches nothing else.
"""

from __future__ import annotations

import math

import trio

from ...base.pulse import Pulse
from .endings_table import MARGIN, Cause, Ending, combined


class Control:
    """Holds the ending that is in force, and wakes the tasks that wait for it."""

    def __init__(self) -> None:
        self.current: Ending | None = None
        """The ending that is in force; None while no ending was requested."""
        self.asked_at = math.inf
        """Time of the first request for an ending. The grace is counted from here."""
        self.end_by = math.inf
        """Time when the process must be gone. No deadline of any step may be later."""
        self._decided = trio.Event()
        self._hurried = trio.Event()
        self._changed, self._turned = Pulse(), Pulse()
        self.takes_turns = True
        """True if a turn may begin now. Checked in the same step in which a turn begins."""
        self._refuses = False
        self.held = False
        """True while a drain request from outside keeps new turns from beginning."""
        self.quiet = False
        """True if that drain request asks to leave the home channels without a shutdown notice."""

    def ask(self, ending: Ending, *, at: float | None = None) -> bool:
        """Request an ending; `at` is the time of the request if it was earlier than now. Return False if an
        earlier ending stays in force."""
        before, self.current = self.current, combined(self.current, ending)
        if self.current is before:
            return False
        self.asked_at = min(self.asked_at, trio.current_time() if at is None else at)
        cut_at = max(self.asked_at + self.current.grace, trio.current_time())
        self.end_by = min(self.end_by, cut_at + MARGIN)
        self._decide_turns()
        self._decided.set()
        self._changed.set()
        return True

    def hurry(self) -> None:
        """Set the grace to zero: a person requested the stop a second time."""
        self._hurried.set()
        self.end_by = min(self.end_by, trio.current_time() + MARGIN)
        self._changed.set()

    async def ending(self) -> Ending:
        """Wait for an ending, and return it."""
        await self._decided.wait()
        assert self.current is not None  # noqa: S101 - `ask` sets it before the event
        return self.current

    async def changed(self, since: Ending) -> Ending:
        """Wait until an ending other than this one is in force, and return it."""
        while self.current is since:
            await self._changed.wait()
        assert self.current is not None  # noqa: S101 - an ending is replaced, never taken back
        return self.current

    async def ends_before(self, time: float) -> None:
        """Wait until `end_by` is earlier than this time."""
        while self.end_by >= time:
            await self._changed.wait()

    @property
    def hands_over(self) -> bool:
        """True if a successor waits to go on with everything that is stored."""
        return self.current is not None and self.current.cause is Cause.HANDED_OVER

    @property
    def takes_messages(self) -> bool:
        """True if a message may be stored now: its turn may begin here, or a successor begins it at once."""
        return self.takes_turns or self.hands_over

    @property
    def grace_is_over(self) -> bool:
        """True from the moment on in which the turns that still run are cut."""
        return trio.current_time() >= self.end_by - MARGIN

    async def hurried(self) -> None:
        """Wait for a second stop request, which sets the grace to zero."""
        await self._hurried.wait()

    def hold(self, held: bool, *, quiet: bool = False) -> None:
        """Keep new turns from beginning, or let them begin again. An ending overrides this."""
        self.quiet = quiet
        if held is not self.held:
            self.held = held
            self._decide_turns()
            self._turned.set()

    def refuse_turns(self) -> None:
        """Let no turn begin any more, although no ending was requested yet."""
        self._refuses = True
        self._decide_turns()

    def _decide_turns(self) -> None:
        self.takes_turns = not (self.current or self.held or self._refuses)

    async def turned(self, since: bool) -> None:
        """Wait until `held` differs from this value."""
        while self.held is since:
            await self._turned.wait()
