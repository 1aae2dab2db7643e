"""Fixtures for the tests of the home."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from hermes_trio.base.world import World
from tests.conftest import Calendar
from tests.host.home.marker_home import MarkerHome


@pytest.fixture
def markers(tmp_path: Path, calendar: Calendar, world: World) -> MarkerHome:
    return MarkerHome(tmp_path, calendar, world)


@pytest.fixture
def other_process() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["sleep", "60"]) as process:
        yield process
        process.kill()
