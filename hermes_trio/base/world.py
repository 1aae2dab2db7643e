"""The time of day, new ids and random numbers.

The code that starts a gateway makes one `World` and hands it down. Tests make one with a fixed time. Waiting
is not a part of it: waits use Trio's clock, which tests replace.
"""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, tzinfo


@dataclass(frozen=True, slots=True)
class World:
    """The sources of the time of day, of new ids and of random numbers."""

    now: Callable[[], datetime] = field(default=lambda: datetime.now(UTC))
    new_id: Callable[[], str] = field(default=lambda: uuid.uuid4().hex)
    jitter: Callable[[], float] = random.random
    zone: tzinfo | None = None
    """The time zone of the daily reset; None is the time zone of this machine."""

    def time(self) -> float:
        """Return the time now in seconds since 1970, as rows and journal records hold it."""
        return self.now().timestamp()
