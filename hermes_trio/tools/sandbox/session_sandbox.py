"""The sandbox of one session: the command line that confines a command.

    sandbox = SessionSandbox(SandboxKind.BUBBLEWRAP, room)
    confined = sandbox.confine("make test", cwd, NOTHING)

It starts nothing itself: a confined command is run like any other one, in its own process group. A command
that is granted everything, and every command where the machine has no sandbox, runs as it is. If a container
or another host is configured, every command runs there, and none here.
"""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from pathlib import Path

from ...host.files.private_files import make_private_dir
from ...host.processes.process_groups import DirectoryUnusable
from ...host.processes.sweep import MARKER
from ..paths import PathRefused, Territory
from . import bubblewrap, landlock
from .remote.remote_place import DIRECTORY_NOTE, RemotePlace
from .views import NOTHING, TEMPORARY, FileAccess, Grants, Room, Views, access_to, views_of


class SandboxKind(StrEnum):
    """A way to confine commands, or another place for them."""

    BUBBLEWRAP = "bubblewrap"
    LANDLOCK = "landlock"
    LANDLOCK_ALONE = "landlock without namespaces"
    OFF = "off"
    DOCKER = "docker"
    SSH = "ssh"


@dataclass(frozen=True, slots=True)
class ConfinedCommand:
    """A command as it is started."""

    command: Sequence[str] | str
    cwd: Path
    """The directory in which it is started."""
    variables: Mapping[str, str]
    """Variables that it gets beside those of every command."""


@dataclass(frozen=True, slots=True)
class SessionSandbox:
    """The sandbox of the commands of one session. It uses the disk; call its methods in a thread."""

    kind: SandboxKind
    room: Room
    remote: RemotePlace | None = None
    """The place where commands run, if that is not this machine."""

    @property
    def confines(self) -> bool:
        """True if commands run in a sandbox or a container."""
        return self.kind not in (SandboxKind.OFF, SandboxKind.SSH)

    @property
    def temporary(self) -> Path:
        """The session's own directory for temporary files, as it is named outside of the sandbox."""
        return self.room.temporary

    @property
    def readable(self) -> tuple[Path, ...]:
        """The paths that may be read although they are hidden."""
        return (self.room.files, *self.room.readable)

    @property
    def territory(self) -> Territory:
        """The paths that the file tools may use: what is hidden from a command is hidden from them. Raises
        `PathRefused` if commands run elsewhere: the files there are others."""
        room = self.room
        if self.remote is not None:
            why = f"is in {self.remote.name}, where only commands reach it. Use the tool terminal."
            raise PathRefused(room.work, why)
        return Territory(room.home, room.work, self.readable, self.temporary, self.outside)

    def may_write(self, real: Path) -> bool:
        """Return True if a command may write to this real path without a yes."""
        return not self.confines or access_to(str(real), views_of(self.room)) is FileAccess.WRITE

    def exposed(self, grants: Grants = NOTHING) -> Views:
        """Return the protected places that a command with these grants could read or change nevertheless,
        each with the access that it should have: this sandbox cannot except them from a directory."""
        cannot_except = self.kind is SandboxKind.LANDLOCK_ALONE and not grants.everything
        return landlock.exposed(self.room, grants) if cannot_except else {}

    def inside(self, path: Path) -> Path:
        """Return the name in the sandbox of a path below `temporary`."""
        return Path("/tmp", path.relative_to(self.temporary)) if self._has_own_tmp else path  # noqa: S108

    def directory_note(self, grants: Grants) -> str:
        """Return the word by which the shell of a command names the file for its last directory. It is the
        file `.cwd-ID` in `temporary` once the command has ended, with the id of its process group."""
        if self.remote is not None:
            return DIRECTORY_NOTE
        top = self.temporary if grants.everything else self.inside(self.temporary)
        return f'{shlex.quote(f"{top}/.cwd-")}"${MARKER}"'

    def was_not_set_up(self, output: bytes) -> bool:
        """Return whether this is the output of a command that failed before it began, because a path to hide
        had gone, such as a socket."""
        return self.kind is SandboxKind.BUBBLEWRAP and output.startswith(bubblewrap.NOT_SET_UP)

    def outside(self, path: Path) -> Path:
        """Return the name outside of the sandbox of a path that a command uses."""
        real = os.path.realpath(path)
        top = next((top for top in TEMPORARY if Path(real).is_relative_to(top)), None)
        if not self._has_own_tmp or top is None:
            return path
        shown = {
            name: access for name, access in views_of(self.room).items() if access is not FileAccess.HIDDEN
        }
        # What is shown of the real directory has the same name inside.
        seen = access_to(real, {**shown, "/": FileAccess.READ, top: shown.get(top, FileAccess.HIDDEN)})
        return path if seen is not FileAccess.HIDDEN else self.temporary / Path(real).relative_to(top)

    @property
    def _has_own_tmp(self) -> bool:
        return self.kind in (SandboxKind.BUBBLEWRAP, SandboxKind.LANDLOCK)

    def confine(
        self,
        command: Sequence[str] | str,
        cwd: Path,
        grants: Grants = NOTHING,
        channel: int | None = None,
    ) -> ConfinedCommand:
        """Return a command as it is started, and make the directories that it needs. `channel` is the
        descriptor of the channel to its proxy, if it was granted hosts. Raises `ProcessUnstartable`."""
        make_private_dir(self.temporary)
        os.utime(self.room.scratch)  # the time of the last command, by which it is kept
        if self.remote is not None:
            line = self.remote.command_line(command, cwd, self.temporary)
            return ConfinedCommand(line, Path("/"), self.remote.variables)
        if not self.confines or grants.everything:
            return ConfinedCommand(command, cwd, {})
        words = [shutil.which("bash") or "sh", "-c", command] if isinstance(command, str) else command
        if not self.outside(cwd).is_dir():  # the sandbox would say it in words of its own
            problem = f"cannot work in {cwd} (No such file or directory)"
            raise DirectoryUnusable("shell command", problem, "Choose a directory that exists")
        make = _COMMAND_LINES[self.kind]
        return ConfinedCommand(make(words, cwd, self.room, grants, channel), Path("/"), self._variables())

    def _variables(self) -> dict[str, str]:
        """Return the variables that lead programs to directories that they may write."""
        temporary = self.inside(self.temporary)
        cache = str(temporary / ".cache")
        libraries = os.environ.get("LD_LIBRARY_PATH", "").split(":")
        kept = [one for one in libraries if not (self.room.can_change(one) or one.startswith(TEMPORARY))]
        return {
            "LD_LIBRARY_PATH": ":".join(kept),  # the programs that make the sandbox load from there too
            "TMPDIR": str(temporary),
            "XDG_CACHE_HOME": cache,
            "npm_config_cache": f"{cache}/npm",
            "GOMODCACHE": f"{cache}/go-mod",
            "CARGO_HOME": f"{cache}/cargo",
        }


_COMMAND_LINES: Mapping[SandboxKind, Callable[..., list[str]]] = {
    SandboxKind.BUBBLEWRAP: bubblewrap.command_line,
    SandboxKind.LANDLOCK: partial(landlock.command_line, alone=False),
    SandboxKind.LANDLOCK_ALONE: partial(landlock.command_line, alone=True),
}
