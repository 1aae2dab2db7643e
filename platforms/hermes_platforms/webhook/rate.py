"""The rate of requests to a route."""

from __future__ import annotations

import math
from collections import deque

import trio

MINUTE = 60.0


class Rate:
    """Counts the requests of the last minute."""

    def __init__(self, per_minute: int) -> None:
        self._taken = deque[float](maxlen=per_minute)

    def wait(self) -> int:
        """Count a request and return 0; or return the seconds until there is room for it."""
        now = trio.current_time()
        if len(self._taken) == self._taken.maxlen and (left := self._taken[0] + MINUTE - now) > 0:
            return math.ceil(left)
        self._taken.append(now)
        return 0
