"""The number of turns that may run at once: the owner's limit, and below it one that follows the lag of the
event loop.

A machine with too many turns delays everything: the words of all turns, health checks, and a stop, which has
a deadline. So a turn that it could not serve in time waits before it begins. The lag is the lateness of a
timer. While the loop keeps up, the limit stays above the number of running turns, so a burst begins in steps,
and the cost of one step is measured before the next. While the loop lags, the limit is below the number of
running turns: none begins until enough of them have ended. For a while after a lag few turns begin at a time,
because a turn costs more later than in its first moment. No running turn is ended.

It knows no turn, only their number.
"""

from __future__ import annotations

import math

import trio

from ...base.pulse import Wakeup

ALWAYS = 8
"""Turns that may run however much the loop lags: even a slow machine makes progress."""
AHEAD = 100
"""Turns that may begin between two measurements while few are running."""
TOO_LATE = 0.2
"""Lag in seconds above which no turn begins."""
MEASURE_EVERY = 0.05
CAREFUL_FOR = 2.0
"""Seconds after a lag in which few turns may begin between two measurements."""


def allowed(running: int, lag: float, kept_up_for: float) -> int:
    """Return the limit of turns: `running` of them run, the loop is `lag` seconds late, and was not too late
    for the last `kept_up_for` seconds."""
    if lag > TOO_LATE:
        return max(ALWAYS, running * 9 // 10)
    if kept_up_for < CAREFUL_FOR:
        return max(ALWAYS, running + 2 + running // 50)
    return running + max(AHEAD, running // 2)


class TurnLimit:
    """Admits turns. A turn runs in its `async with` block."""

    def __init__(self, most: int | None) -> None:
        self.most = most or math.inf
        """The owner's limit."""
        self.lag = 0.0
        """Seconds by which the event loop is late; measured while more than a few turns run."""
        self._limiter = trio.CapacityLimiter(min(self.most, AHEAD))
        self._late_at = -math.inf
        self._crowd = Wakeup()
        """Set when more than a few turns run."""

    @property
    def running(self) -> int:
        """Number of turns that run now."""
        return self._limiter.borrowed_tokens

    @property
    def has_room(self) -> bool:
        """True if another turn may begin now."""
        return self._limiter.available_tokens >= 1

    @property
    def is_reached(self) -> bool:
        """True if no turn begins before another one has ended. Else a waiting turn may be admitted at the
        next measurement."""
        return not self.has_room and (self.running >= self.most or self.lag > TOO_LATE)

    async def __aenter__(self) -> None:
        await self._limiter.acquire()
        if self.running > ALWAYS:
            self._crowd.set()

    async def __aexit__(self, *_: object) -> None:
        self._limiter.release()

    async def follow_lag(self) -> None:
        """Measure the lag and set the limit, until cancelled. Nothing is measured while only a few turns run
        and the limit is not low, so an idle gateway is not woken."""
        while True:
            await self._crowd.wait()
            # A low limit forbids the turns that would make a crowd, so it is raised before this rests.
            while self.running > ALWAYS or trio.current_time() - self._late_at < CAREFUL_FOR:
                due = trio.current_time() + MEASURE_EVERY
                await trio.sleep_until(due)
                self._measured(trio.current_time() - due)
            self._crowd.clear()
            self._measured(0.0)

    def _measured(self, lag: float) -> None:
        now, self.lag = trio.current_time(), lag
        if lag > TOO_LATE:
            self._late_at = now
        self._limiter.total_tokens = min(self.most, allowed(self.running, lag, now - self._late_at))
