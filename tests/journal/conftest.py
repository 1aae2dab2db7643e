"""Where the stories of the run journal take place: a root, its open journals, a disk, other processes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from hermes_trio.base.world import World
from hermes_trio.host.loop.worker import inline_worker
from hermes_trio.journal.writer import Journals, open_journals
from tests.journal.seams import Disk, RunFile, StartChild


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Where the journals of this test are; nothing of it exists yet."""
    return tmp_path / "home" / "journal"


@pytest.fixture
def file(root: Path) -> RunFile:
    """The file of run-1 of s1, which most stories are about."""
    return RunFile(root / "s1" / "run-1.jsonl")


@pytest.fixture
async def journals(root: Path, world: World) -> AsyncIterator[Journals]:
    async with open_journals(root, world, worker=inline_worker) as opened:
        yield opened


@pytest.fixture
def disk() -> Disk:
    return Disk()


@pytest.fixture
def start_child() -> Iterator[StartChild]:
    """Starts Python code in a process of its own, to talk to by its pipes; killed behind the test."""
    children: list[subprocess.Popen[str]] = []

    def start(code: str, *args: object) -> subprocess.Popen[str]:
        child = subprocess.Popen(
            [sys.executable, "-c", code, *map(str, args)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"PYTHONUNBUFFERED": "1"},
        )
        children.append(child)
        return child

    yield start
    for child in children:
        child.kill()
        with child:
            pass
