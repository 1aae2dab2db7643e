"""What the stories of the run journal share: an open journal, a disk that can hang, and other processes."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import outcome
import pytest

from hermes_trio.host.worker import Runner, inline_worker
from hermes_trio.journal.record import VERSION, Record, encode
from hermes_trio.journal.writer import Journals, open_journals
from hermes_trio.world import World

T = TypeVar("T")

MakeLine = Callable[..., bytes]
StartChild = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Where the journals of this test are; nothing of it exists yet."""
    return tmp_path / "home" / "journal"


@dataclass(frozen=True)
class RunFile:
    """A file of the journals, looked at from outside."""

    path: Path

    @property
    def content(self) -> bytes:
        return self.path.read_bytes()

    @property
    def mode(self) -> int:
        return stat.S_IMODE(self.path.stat().st_mode)

    def becomes(self, content: bytes, *, mode: int = 0o600) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.write_bytes(content)
        self.path.chmod(mode)


@pytest.fixture
def file(root: Path) -> RunFile:
    """The file of run-1 of s1, which most stories are about."""
    return RunFile(root / "s1" / "run-1.jsonl")


@pytest.fixture
async def journals(root: Path, world: World) -> AsyncIterator[Journals]:
    async with open_journals(root, world, worker=inline_worker) as opened:
        yield opened


@pytest.fixture
def line() -> MakeLine:
    """Makes one whole line of run-1 of s1; any field can be given another value."""

    def make(seq: int, text: str = "text", /, **other: Any) -> bytes:
        fields: dict[str, Any] = {
            "version": VERSION,
            "event_id": f"{other.get('run_id', 'run-1')}:{seq}",
            "seq": seq,
            "run_id": "run-1",
            "session_id": "s1",
            "event": "message.delta",
            "type": "message.delta",
            "created_at": 1000.0 + seq,
            "terminal": False,
            "terminal_state": None,
            "payload": {"delta": text},
        }
        return encode(Record(**fields | other)) + b"\n"

    return make


@dataclass
class Disk:
    """A disk that can hang. What it is asked for then is done when it comes back, or never."""

    hangs: bool = False
    answers_late: bool = False
    """It does what it is asked for at once, and says so only when it comes back."""
    _held: deque[Callable[[], None]] = field(default_factory=deque)

    @contextmanager
    def worker(self, name: str) -> Iterator[Runner]:
        with inline_worker(name) as at_once:

            def runner(job: Callable[[], T], done: Callable[[outcome.Outcome[T]], object]) -> None:
                if self.hangs:
                    self._held.append(partial(at_once, job, done))
                elif self.answers_late:
                    result = outcome.capture(job)
                    self._held.append(partial(at_once, result.unwrap, done))
                else:
                    at_once(job, done)

            yield runner

    def does_one(self) -> None:
        """Do, or answer, the first thing that waits."""
        self._held.popleft()()

    def comes_back(self) -> None:
        self.hangs = self.answers_late = False
        while self._held:
            self.does_one()


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
