"""Pace of what one connection says. A server that hears too much at once ends the connection."""

from __future__ import annotations

import math

import trio

from hermes_trio.platform import FloodWait

BURST = 5
"""Lines that may be sent at once."""
LONGEST_WAIT = 15.0
"""Seconds that a message may wait for its turn. Beyond that the gateway waits instead: the time that a call
may take would be over before its turn comes."""
LONGEST_MESSAGE = 30.0
"""Seconds that the lines of one message may take."""


class Pace:
    """Turns of all messages of a connection, in the order in which they came."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._next = -math.inf

    @property
    def most_lines(self) -> int:
        """Most lines of one message."""
        return max(BURST, int(LONGEST_MESSAGE / max(self._seconds, 0.1)))

    def book(self, lines: int) -> float:
        """Take the next turn for this many lines, and return its beginning. Raises `FloodWait` if it is too
        far away."""
        now = trio.current_time()
        start = max(self._next, now - BURST * self._seconds)
        if (wait := start - now) > LONGEST_WAIT:
            raise FloodWait(round(wait - LONGEST_WAIT) + 1.0)
        self._next = start + lines * self._seconds
        return start

    async def until(self, start: float, lines: int) -> None:
        """Wait until this many lines of a turn may have been sent."""
        wait = start + lines * self._seconds - trio.current_time()
        await trio.sleep(max(wait, 0))
