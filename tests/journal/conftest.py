"""Fixtures for the run journal: a root, its open journals, a disk, other processes."""

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
from tests.disk import Disk
from tests.journal.seams import JournalFile, StartChild


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """The directory for the journals of this test; it does not exist yet."""
    return tmp_path / "home" / "journal"


@pytest.fixture
def file(root: Path) -> JournalFile:
    """The journal file of run-1 of s1, which most tests use."""
    return JournalFile(root / "s1" / "run-1.jsonl")


@pytest.fixture
async def journals(root: Path, world: World) -> AsyncIterator[Journals]:
    async with open_journals(root, world, worker=inline_worker) as opened:
        yield opened


@pytest.fixture
def disk() -> Disk:
    return Disk()


@pytest.fixture
def start_child() -> Iterator[StartChild]:
    """A function that runs Python code in a child process with pipes; the child is killed after the test."""
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
