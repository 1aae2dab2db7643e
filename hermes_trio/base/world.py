"""Time, names and chance come in by one door.

A `World` is built once, by whoever starts a gateway, and handed down. Tests build one that stands
still. Waiting is not in here: waits use Trio's clock, which tests replace.
"""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, tzinfo


@dataclass(frozen=True, slots=True)
class World:
    """What the gateway may know of the outside: the time of day, fresh ids, and dice."""

    now: Callable[[], datetime] = field(default=lambda: datetime.now(UTC))
    new_id: Callable[[], str] = field(default=lambda: uuid.uuid4().hex)
    jitter: Callable[[], float] = random.random
    zone: tzinfo | None = None
    """Where "four in the morning" is; None means this machine's zone."""

    def time(self) -> float:
        """Now, as the seconds since 1970 that rows and journal records hold."""
        return self.now().timestamp()
