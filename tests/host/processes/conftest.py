"""Fixtures for the tests of processes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from hermes_trio.host.processes.guard import open_guard
from tests.host.processes.place import Place


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[Place]:
    async with open_guard() as guard:
        await guard.ready()
        yield Place(tmp_path, guard)
