"""The sandbox that this machine has, or the place where commands run instead. Each is tried once, at the
start: a kernel or a container may forbid what it needs although the program is installed. A place that does
not answer then may do so later, so it is no mistake of the configuration."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ...base.errors import ConfigFinding, ConfigInvalid
from ...config.schema import TerminalConfig
from . import landlock_program
from .call_filter import has_filter
from .remote.remote_place import RemotePlace, remote_place
from .session_sandbox import SandboxKind, SessionSandbox
from .views import Room

TRIES_FOR = 10.0
REMEDY = "Install the package `bubblewrap` of your system, or use a Linux kernel from 6.12 on."
NAMESPACES_REMEDY = (
    "Install the package `bubblewrap` and allow user namespaces, or set terminal.cwd to a directory without "
    "`.env`, git and settings of editors."
)
EXPOSES = (
    "The sandbox cannot protect `.env`, git and settings of editors in the work directory: commands need a "
    "yes where there are some."
)


@dataclass(frozen=True, slots=True)
class Available:
    """The sandbox that was chosen, and why the better ones were not."""

    kind: SandboxKind
    refused: Mapping[SandboxKind, str]
    remote: RemotePlace | None = None
    """The container or host in which commands run, if one is configured."""
    trouble: str | None = None
    """Why commands cannot run there at present."""

    @property
    def confines(self) -> bool:
        """True if there is a sandbox or a container."""
        return self.kind not in (SandboxKind.OFF, SandboxKind.SSH)

    @property
    def reasons(self) -> str:
        """The reasons why better ones were not chosen, as one line."""
        return "; ".join(f"{kind}: {why}" for kind, why in self.refused.items())

    @property
    def remedy(self) -> str:
        """The way to get a sandbox, or a better one, or to reach the place."""
        if self.remote is not None:
            return f"{self.remote.remedy}."
        if self.kind is SandboxKind.LANDLOCK_ALONE:
            return NAMESPACES_REMEDY
        return REMEDY if self.refused else "Remove terminal.sandbox: off from config.yaml."

    @property
    def warning(self) -> str | None:
        """A sentence for the owner, with the remedy, if there is no sandbox, if it cannot protect the work
        directory, or if the place does not answer."""
        if self.trouble is not None:
            return f"Every command fails: {self.trouble}. {self.remedy}"
        if self.remote is not None:
            return None
        if self.kind is SandboxKind.LANDLOCK_ALONE:
            return f"{EXPOSES} {self.remedy}"
        return None if self.confines else f"No sandbox confines the commands of the agent. {self.remedy}"


_LOCAL = (SandboxKind.BUBBLEWRAP, SandboxKind.LANDLOCK, SandboxKind.LANDLOCK_ALONE)
"""The sandboxes of a machine; the best first."""
NO_SANDBOX = Available(SandboxKind.OFF, {})


def choose(terminal: TerminalConfig) -> Available:
    """Return the sandbox that `terminal.sandbox` means on this machine. It starts processes; call it in a
    thread. Raises `ConfigInvalid` if the one that is named does not work."""
    setting = terminal.sandbox
    if remote := remote_place(terminal):
        return Available(SandboxKind(setting), {}, remote, remote.trouble(directory_there(terminal.cwd)))
    if setting == "off":
        return Available(SandboxKind.OFF, {})
    refused: dict[SandboxKind, str] = {}
    for kind in _LOCAL:
        if setting == "auto" or kind.startswith(setting):
            why = reason_against(kind)
            if why is None:
                return Available(kind, refused)
            refused[kind] = why
    if setting != "auto":
        problem = f"this machine has no {setting}: {refused[SandboxKind(setting)]}"
        raise ConfigInvalid.of(
            [ConfigFinding("terminal.sandbox", problem, f"{REMEDY} Or set it to auto or off.")]
        )
    return Available(SandboxKind.OFF, refused)


def directory_there(configured: str | None) -> Path:
    """Return the work directory in a container or on a host; by default the home directory there."""
    return Path(configured or "~")


def reason_against(kind: SandboxKind) -> str | None:
    """Return why this machine does not have a sandbox, found by trying; None if it has it."""
    if sys.platform != "linux":
        return "it needs Linux"
    if kind is not SandboxKind.BUBBLEWRAP:
        if not has_filter():
            return "it needs Linux on x86-64 or ARM"
        if landlock_program.version() < landlock_program.LEAST_VERSION:
            return "it needs a Linux kernel from 6.12 on, with Landlock enabled"
    return _attempt(kind)


def _attempt(kind: SandboxKind) -> str | None:
    """Run a command that does nothing in this sandbox. Return why that fails, or None."""
    with tempfile.TemporaryDirectory(prefix="hermes-sandbox-") as name:
        top = Path(name).resolve()
        room = Room(home=top / "home", work=top / "work", scratch=top / "scratch", files=top / "files")
        for directory in (room.home, room.work, room.scratch):
            directory.mkdir()
        confined = SessionSandbox(kind, room).confine(["true"], room.work)
        try:
            done = subprocess.run(  # noqa: S603 - our own command line
                confined.command, capture_output=True, text=True, timeout=TRIES_FOR, cwd=confined.cwd
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            return str(error)
    return None if done.returncode == 0 else done.stderr.strip() or f"exit code {done.returncode}"
