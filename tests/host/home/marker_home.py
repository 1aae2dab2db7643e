"""A home without a gateway, in which tests put markers."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from hermes_trio.base.world import World
from hermes_trio.host.home.markers import MarkerReading, PlannedStop, read_planned_stop
from hermes_trio.host.processes.process_identity import own
from tests.conftest import Calendar


class MarkerHome:
    """The home, and the process that reads its markers."""

    def __init__(self, home: Path, calendar: Calendar, world: World) -> None:
        self.home, self.calendar, self.world, self.me = home, calendar, world, own()

    def put(self, name: str, content: bytes | str | dict[str, Any], *, age: float = 10.0) -> Path:
        """Write a file that is `age` seconds old."""
        if isinstance(content, dict):
            content = json.dumps(content)
        path = self.home / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        os.utime(path, (self.calendar.time - age,) * 2)
        return path

    def planned_stop(self) -> MarkerReading[PlannedStop]:
        """Read the planned stop, in a boot that began 1000 seconds ago."""
        return read_planned_stop(self.home, self.me, self.world, booted=self.calendar.time - 1000)

    @property
    def names(self) -> list[str]:
        return sorted(os.listdir(self.home))
