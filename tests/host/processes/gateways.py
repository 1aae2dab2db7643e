"""Gateways that tests kill."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from hermes_trio.host.processes.process_identity import boot_time
from tests.host.children.kinds import alive, is_dead, soon, token

ROOT = Path(__file__).parents[3]


@dataclass
class Gateway:
    """A gateway that a test kills."""

    process: subprocess.Popen[str]
    token: str
    guard: int = 0
    rows: list[Row] = field(default_factory=list)

    def heard(self) -> dict[str, Any]:
        """Return the next fact that it reports."""
        assert self.process.stdout is not None
        line = "\n"
        while not line.startswith("{"):  # lines of its log are skipped
            line = self.process.stdout.readline()
            assert line, f"it ended with {self.process.wait()}"
        said: dict[str, Any] = json.loads(line)
        return said

    def commands(self) -> list[int]:
        """Return the pids of the living processes of its commands."""
        return [pid for pid in alive(self.token) if pid != self.process.pid]

    def signal(self, number: int) -> None:
        self.process.send_signal(number)

    def die(self) -> None:
        self.signal(signal.SIGKILL)
        self.process.wait()


@dataclass(frozen=True)
class Row:
    """A row of the `processes` table."""

    process_id: str
    pid: int
    pid_time: float
    started_at: float = field(default_factory=lambda: boot_time() + 60)


@contextmanager
def gateway(directory: Path, plan: str, *commands: str) -> Iterator[Gateway]:
    """Yield a gateway that runs these commands. Processes that it leaves alive are killed at the end."""
    mark = token()
    directory = directory / f"gateway-{mark}"
    directory.mkdir()
    process = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "tests.host.children.gateway",
            str(directory),
            mark,
            plan,
            *(command.format(t=mark) for command in commands),
        ],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )
    it = Gateway(process, mark)
    try:
        said = it.heard()
        it.guard, it.rows = said["guard"], [Row(*row) for row in said["rows"]]
        yield it
    finally:
        process.kill()
        process.communicate()
        for pid in alive(mark):
            with suppress(ProcessLookupError):  # the guard kills them too
                os.kill(pid, signal.SIGKILL)


@contextmanager
def stranger(mark: str, **how: Any) -> Iterator[psutil.Process]:
    """Yield a process that no gateway started."""
    child = subprocess.Popen(["sleep", mark], start_new_session=True, **how)
    try:
        soon(lambda: alive(mark))
        yield psutil.Process(child.pid)
    finally:
        child.kill()
        child.wait()


def is_gone(pid: int) -> bool:
    try:
        return is_dead(psutil.Process(pid))
    except psutil.NoSuchProcess:
        return True
