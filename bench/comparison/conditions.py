"""Conditions around a measured program: a slow disk, busy processors, a chat platform that has stopped
answering, and a clock that is moved forward.
"""

from __future__ import annotations

import mmap
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from ..subjects.environments import cached, run_command
from ..subjects.telegram_server import telegram_server

FSYNC_TAKES = 20
"""Milliseconds that each fsync takes longer on the slow disk."""
CONDITIONS = ("", "slow disk", "busy processors", "wedged platform")
_BURN = "import os\nwhile os.getppid() == {parent}:\n    pass"
"""A program that uses a processor for as long as its parent lives."""


@dataclass(frozen=True, slots=True)
class Around:
    """The environment of a program at its start, and the action at the moment of its stop."""

    environ: Mapping[str, str]
    telegram: int | None = None
    strike: Callable[[], object] = tuple


@contextmanager
def around(condition: str) -> Iterator[Around]:
    """Prepare a condition for the block. Raises `Unavailable`."""
    with ExitStack() as until_the_end:
        match condition:
            case "slow disk":
                yield Around({"LD_PRELOAD": str(_library("slow_fsync")), "BENCH_FSYNC_MS": str(FSYNC_TAKES)})
            case "busy processors":
                yield Around({}, strike=lambda: until_the_end.enter_context(_hogs()))
            case "wedged platform":
                server = until_the_end.enter_context(telegram_server())
                yield Around({}, server.port, server.wedge)
            case _:
                yield Around({})


@contextmanager
def _hogs() -> Iterator[None]:
    """Keep all processors busy during the block."""
    command = [sys.executable, "-c", _BURN.format(parent=os.getpid())]
    hogs = [subprocess.Popen(command) for _ in range(os.cpu_count() or 1)]
    try:
        time.sleep(0.2)  # they run
        yield
    finally:
        for hog in hogs:
            hog.kill()
            hog.wait()


@dataclass(frozen=True, slots=True)
class Clock:
    """The clock of a program, which can be moved forward."""

    environ: Mapping[str, str]
    _seconds: mmap.mmap

    def forward(self, seconds: int) -> None:
        """Move it forward."""
        now = int.from_bytes(self._seconds[:8], sys.byteorder)
        self._seconds[:8] = (now + seconds).to_bytes(8, sys.byteorder)


@contextmanager
def moved_clock() -> Iterator[Clock]:
    """Prepare such a clock for the block. Raises `Unavailable`."""
    with tempfile.NamedTemporaryFile(prefix="bench-clock-") as file:
        file.write(bytes(8))
        file.flush()
        environ = {"LD_PRELOAD": str(_library("shifted_clock")), "BENCH_CLOCK": file.name}
        with mmap.mmap(file.fileno(), 8) as seconds:
            yield Clock(environ, seconds)


def _library(name: str) -> Path:
    """Return a library to be preloaded. It is compiled when it is first needed."""
    library = cached(f"{name}.so")
    if not library.exists():
        source = Path(__file__).with_name(f"{name}.c")
        run_command("cc", "-shared", "-fPIC", "-O2", "-o", str(library), str(source), "-ldl")
    return library
