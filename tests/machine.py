"""Real processes for tests: our commands run as a shell runs them, and a gateway as a service manager runs
it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import trio

from hermes_trio.base.errors import EXIT_RESTART
from hermes_trio.host.home.state_file import GatewayState, Status, read_status

HERMES = (sys.executable, "-m", "hermes_trio")
PATIENCE = 90.0
"""Seconds; longer than any step takes on a busy machine."""
KEPT = ("PATH", "HOME", "USER", "SYSTEMROOT", "COVERAGE_PROCESS_CONFIG")
"""Environment variables that a command inherits; `make coverage` sets the last one."""
UP = (GatewayState.RUNNING, GatewayState.DEGRADED)
CONFIG = """\
agent: {{restart_drain_timeout: {grace}}}
streaming: {{edit_interval: 0.05}}
web: {{port: 0}}
platforms:
  loopback:
    {{allow_from: all, allow_admin_from: [42], port: {port}, traits: {{edits: true, takes_keys_for: 1.0e+9}}}}
"""


def configure(home: Path, *, port: int = 1, grace: float = 0) -> None:
    """Make a home whose gateway uses the loopback platform at this port."""
    home.mkdir(mode=0o700, exist_ok=True)
    (home / "config.yaml").write_text(CONFIG.format(port=port, grace=grace))
    (home / "config.yaml").chmod(0o600)


def environment(home: Path, **more: str) -> dict[str, str]:
    """Return the environment of a command, without the variables of a supervisor that may run these tests."""
    keep = {name: os.environ[name] for name in KEPT if name in os.environ}
    return {**keep, "HERMES_HOME": str(home), **more}


def write_systemctl(folder: Path, script: str = "") -> Path:
    """Write a `systemctl` that runs this script. Return the file to which it appends the arguments of each
    call."""
    folder.mkdir(exist_ok=True)
    program, calls = folder / "systemctl", folder / "calls"
    program.write_text(f'#!/bin/sh\necho "$*" >> {calls}\n{script}\n')
    program.chmod(0o755)
    calls.touch()
    return calls


async def hermes(*arguments: str, environ: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Run a command, and return its exit code and output."""
    with trio.fail_after(PATIENCE):
        done = await trio.run_process(
            [*HERMES, *arguments], env=environ, capture_stdout=True, capture_stderr=True, check=False
        )
    out, err = done.stdout.decode(), done.stderr.decode()
    return subprocess.CompletedProcess(done.args, done.returncode, out, err)


class Life:
    """A gateway from its start to its end. It is started again when its exit code requests that."""

    def __init__(self, home: Path, environ: dict[str, str], command: tuple[str, ...]) -> None:
        self._home, self._environ, self._command = home, environ, command
        self.process: trio.Process
        self.codes: list[int] = []
        """The exit code of each end."""
        self.is_abandoned = False
        """True if it is not started again, whatever its exit code requests."""
        self._over = trio.Event()

    async def keep(self, *, task_status: trio.TaskStatus[None]) -> None:
        with open(self._home.with_name("output"), "ab") as output:
            while not self.codes or (self.codes[-1] == EXIT_RESTART and not self.is_abandoned):
                self.process = await trio.lowlevel.open_process(
                    self._command, env=self._environ, stdout=output, stderr=output
                )
                try:
                    if not self.codes:
                        task_status.started()
                    self.codes.append(await self.process.wait())
                finally:
                    self.process.kill()
                    with trio.move_on_after(PATIENCE, shield=True):
                        await self.process.wait()
        self._over.set()

    @property
    def output(self) -> str:
        """Everything that it has printed."""
        return self._home.with_name("output").read_text()

    def signal(self, number: signal.Signals) -> None:
        os.kill(self.process.pid, number)

    async def ended(self) -> int:
        """Wait until it has ended and is not started again, and return the last exit code."""
        with trio.fail_after(PATIENCE):
            await self._over.wait()
        return self.codes[-1]

    async def until(self, condition: Callable[[Status], bool]) -> Status:
        """Wait until the state in its file fulfils a condition."""
        with trio.fail_after(PATIENCE):
            while True:
                status = read_status(self._home)
                if status is not None and condition(status):
                    return status
                await trio.sleep(0.02)

    async def up(self) -> Status:
        """Wait until it is ready."""
        return await self.until(lambda status: status.gateway_state in UP)


@asynccontextmanager
async def living(
    home: Path, *arguments: str, environ: dict[str, str] | None = None, command: tuple[str, ...] = HERMES
) -> AsyncIterator[Life]:
    """Run a gateway during the block."""
    life = Life(home, environ or environment(home), (*command, "run", *arguments))
    async with trio.open_nursery() as nursery:
        await nursery.start(life.keep)
        yield life
        nursery.cancel_scope.cancel()
