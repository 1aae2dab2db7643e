"""The container or the host in which commands run instead of on this machine."""

from __future__ import annotations

import base64
import json
import os
import shlex
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path

import msgspec
import trio

from ....base.errors import ConfigInvalid
from ....config.schema import TerminalConfig
from ....host.loop.scoped_task import beside
from ....host.processes.process_groups import (
    PATIENCE,
    ChildProcess,
    DirectoryUnusable,
    ProcessUnstartable,
    cut_at_ending,
)
from ....host.processes.sweep import MARKER
from . import connector_program

TRIES_FOR = 10.0
"""Seconds of a look whether the place answers."""
DIRECTORY_NOTE = '"$HERMES_TRIO_DIRECTORY"'
"""The word by which a shell there names the file for its last directory."""
_SSH = (
    *("ssh", "-T", "-a", "-x"),
    *("-o", "BatchMode=yes", "-o", "ConnectTimeout=10", "-o", "ServerAliveInterval=5"),
    *("-o", "ServerAliveCountMax=3", "-o", "ControlMaster=no", "-o", "ClearAllForwardings=yes"),
    *("-o", "PermitLocalCommand=no", "-o", "RemoteCommand=none", "--"),
)
"""No question and no forwarding. A master connection of the owner is used, but this becomes none: that would
outlive its command."""
_FOR_CLIENTS = (
    *("SSH_AUTH_SOCK", "DOCKER_HOST", "DOCKER_CONTEXT", "DOCKER_CONFIG", "DOCKER_CERT_PATH"),
    *("DOCKER_TLS_VERIFY", "CONTAINER_HOST", "CONTAINER_CONNECTION", "XDG_RUNTIME_DIR"),
)
"""Variables that the programs which connect need. No command gets them."""


class RemoteUnreachable(ProcessUnstartable):
    """The container or host in which commands are to run cannot be reached; the command did not begin."""


class ConnectorReport(msgspec.Struct):
    """Report of a connector: a command has begun, or could not."""

    problem: str | None = None
    kind: str = ""
    """`connection`, `directory` or `command`."""


@dataclass(frozen=True, slots=True)
class RemotePlace:
    """A place for commands apart from the files of this machine."""

    name: str
    """The place, for people."""
    reach: Sequence[str] = field(repr=False)
    """The command line that runs the supervisor of a command there."""
    passed: Sequence[str]
    """Variables of the gateway that commands get there."""
    remedy: str

    @property
    def variables(self) -> Mapping[str, str]:
        """The variables for the program that connects."""
        return {name: os.environ[name] for name in _FOR_CLIENTS if name in os.environ}

    def command_line(self, command: Sequence[str] | str, directory: Path, notes: Path) -> list[str]:
        """Return the local command line that runs a command there. `notes` is the directory here in which
        the connector writes the last directory of the command."""
        task = {
            "reach": self.reach,
            "name": self.name,
            "passed": self.passed,
            "directory": str(directory),
            "command": command if isinstance(command, str) else f"exec {shlex.join(command)}",
            "notes": str(notes),
        }
        return [sys.executable, "-I", "-S", connector_program.__file__, json.dumps(task)]

    @asynccontextmanager
    async def attended(
        self, connector: ChildProcess, directory: Path, ending: trio.Event
    ) -> AsyncIterator[None]:
        """Yield when the command of this connector has begun there. At the end of the block the connector
        ends it there and has two seconds to prove that, none if the gateway is ending; after that its end is
        the supervisor's task. Raises `ProcessUnstartable` if the command could not begin."""
        reports, said = connector.stdout, b""
        assert reports is not None  # noqa: S101 - it was started with `hear`
        while not said.endswith(b"\n") and (piece := await reports.receive_some()):
            said += piece
        self._check(said, directory)
        try:
            yield
        finally:
            with trio.move_on_after(PATIENCE.after_term, shield=True) as polite:
                async with beside(partial(cut_at_ending, polite, ending)):
                    connector.ask_to_end()
                    await connector.wait()

    def trouble(self, directory: Path) -> str | None:
        """Return why commands cannot run in this directory there, or None. It connects; call it in a
        thread."""
        line = self.command_line("exit 0", directory, directory)
        try:
            done = subprocess.run(  # noqa: S603 - our own program
                line,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=TRIES_FOR,
                env={**os.environ, MARKER: "look"},
            )
            self._check(done.stdout, directory)
        except subprocess.TimeoutExpired:
            return f"{self.name} does not answer within {TRIES_FOR:.0f} s"
        except ProcessUnstartable as error:
            return error.problem
        return None

    def _check(self, said: bytes, directory: Path) -> None:
        """Raise the error of a command that could not begin."""
        report = (
            msgspec.json.decode(said, type=ConnectorReport)
            if said
            else ConnectorReport("the connection ended", "connection")
        )
        if report.kind == "directory":
            problem = f"cannot work in {directory} in {self.name} ({report.problem})"
            raise DirectoryUnusable("shell command", problem, "Choose a directory that exists there")
        if report.problem is not None:
            problem = f"{self.name} cannot be reached ({report.problem})"
            raise RemoteUnreachable("shell command", problem, self.remedy)


def remote_place(terminal: TerminalConfig) -> RemotePlace | None:
    """Return the place that is configured for commands; None if they run on this machine. Raises
    `ConfigInvalid` if it has no name."""
    if terminal.sandbox == "docker":
        if terminal.docker.container is None:
            raise ConfigInvalid(
                "terminal.docker.container", "no container is named", "Name a running container of yours."
            )
        program, container = terminal.docker.program, terminal.docker.container
        return RemotePlace(
            f"the container {container}",
            (program, "exec", "-i", container, "sh", "-c", _supervisor()),
            terminal.env_passthrough,
            f"Start it, and check it with `{program} exec {container} true`",
        )
    if terminal.sandbox == "ssh":
        host = terminal.ssh.host
        if host is None:
            raise ConfigInvalid(
                "terminal.ssh.host", "no host is named", "Name a host as in your configuration of ssh."
            )
        return RemotePlace(
            f"the host {host}",
            (*_SSH, host, f"exec sh -c {shlex.quote(_supervisor())}"),
            terminal.env_passthrough,
            f"Make `ssh -o BatchMode=yes {host} true` work for the account of the gateway",
        )
    return None


@cache
def _supervisor() -> str:
    """Return the program of the supervisor, for a POSIX shell: python3 runs it, if it is there."""
    folder = Path(__file__).parent
    python = base64.b64encode((folder / "supervisor_program.py").read_bytes()).decode()
    decode = "import binascii, sys; exec(binascii.a2b_base64(sys.argv[1]))"
    return (
        f"if command -v python3 >/dev/null 2>&1; then python3 -I -S -c {shlex.quote(decode)} {python}; "
        f"[ $? = 86 ] || exit 0; fi\n{(folder / 'supervisor.sh').read_text('utf-8')}"
    )
