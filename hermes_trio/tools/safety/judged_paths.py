"""The paths that commands are judged by: those that the system depends on, and those that are protected.
Pure, but for `places_here` and `as_kernel_finds`, which ask the system."""

from __future__ import annotations

import os
import posixpath
import re
import stat
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path

from .command_line import UNKNOWN, UNSET
from .protected_paths import folded, holds_protected, is_below, level_of, login_files, own_program

_ESSENTIAL = (
    "/", "/bin", "/boot", "/dev", "/etc", "/home", "/lib", "/lib32", "/lib64", "/opt", "/proc", "/root",
    "/run", "/sbin", "/srv", "/sys", "/usr", "/usr/bin", "/usr/lib", "/usr/local", "/usr/sbin", "/usr/share",
    "/var", "/var/lib", "/var/log", "/mnt", "/media", "/Users", "/System", "/Library", "/Applications",
    "/private", "/private/etc", "/private/var", "/Volumes",
)  # fmt: skip
_RAW = re.compile(
    r"/dev/(r?disk\d|sd[a-z]|hd[a-z]|vd[a-z]|xvd[a-z]|nvme\d|mmcblk\d|md\d|dm-\d|mapper/|mem$|kmem$)"
)
_ALL_OF_IT = re.compile(r"(?:\*+|\.\*|\.\[!\.\]\*|\?\*|\.\?\*)")


@dataclass(frozen=True, slots=True)
class Places:
    """The directories and the process that commands are judged by."""

    user_home: str
    gateway_home: str
    cwd: str
    pid: int
    """The gateway's own process id."""
    real: Callable[[str], str] = str
    """Return the path under which the kernel finds the file of a path; by default the path itself."""
    workplace: str = ""
    """The directory in which the agent works; it may lie within the gateway's home."""

    @property
    def variables(self) -> Mapping[str, str]:
        """The variables in the environment of a command."""
        return {
            "HOME": self.user_home,
            "PWD": self.cwd,
            "PPID": str(self.pid),
            "HERMES_HOME": self.gateway_home,
            "SHELL": "sh",
            "BASH": "sh",
            "0": "sh",
        }

    def absolute(self, target: str, cwd: str | None) -> str:
        """Return a path as an absolute one with its `..` kept: the kernel resolves them after the links."""
        if target.startswith("~") and not target.startswith("~/"):
            name, _, rest = target[1:].partition("/")
            target = (
                f"{posixpath.dirname(self.user_home)}/{name}/{rest}" if name else f"{self.user_home}/{rest}"
            )
        elif target.startswith("~/"):
            target = self.user_home + target[1:]
        if target and not target.startswith("/") and cwd is not None:
            target = f"{cwd}/{target}"
        return target

    def resolve(self, target: str, cwd: str | None) -> str:
        """Return a path as an absolute one; a pattern for everything in a directory becomes the directory."""
        head, _, last = target.rstrip("/").rpartition("/")
        if _ALL_OF_IT.fullmatch(last):
            target = head or ("/" if target.startswith("/") else ".")
        target = self.absolute(target, cwd)
        return re.sub(r"^//+", "/", posixpath.normpath(target)) if target else ""

    def is_essential(self, path: str) -> bool:
        """Return whether the system, the login or the gateway depends on this path."""
        folded = path.casefold()
        own = [place for home in (self.user_home, self.gateway_home) for place in _and_above(home)]
        # An unset variable is empty; the path is then the text around it.
        empty = re.sub(f"[{UNKNOWN}{UNSET}]", "", folded) or "/" if folded.startswith("/") else folded
        return any(
            each.casefold() == folded or fnmatchcase(each.casefold(), folded) or each.casefold() == empty
            for each in (*_ESSENTIAL, *own)
            if folded.startswith("/")
        )

    def is_protected(self, path: str) -> bool:
        """Return whether writing this changes the system, a login, code that runs later, or the gateway."""
        return self.is_gateways(path) or level_of(folded(f"/{path}".replace("//", "/"))) is not None

    def is_gateways(self, path: str) -> bool:
        """Return whether this is in the gateway's home, or a part of its program."""
        parts, homes = folded(path), {folded(self.gateway_home), folded(self.real(self.gateway_home))}
        if any(is_below(parts, top) for top in own_program()):
            return True
        workplace = folded(self.real(self.workplace)) if self.workplace else ()
        if is_below(parts, workplace) and any(is_below(workplace, home) for home in homes - {workplace}):
            return False  # the owner lets the agent work within the home
        return any(is_below(parts, home) for home in homes)

    def holds_protected(self, path: str) -> bool:
        """Return whether copying a whole directory of this name may bring a protected file along."""
        return self.is_essential(path) or holds_protected(folded(path))

    def is_raw(self, path: str) -> bool:
        """Return whether this is a disk device."""
        return bool(_RAW.match(path))


def places_here(gateway_home: Path, cwd: Path, workplace: Path) -> Places:
    """Return the places of this user and this process. Files are looked up as the kernel finds them."""
    user_home, own = str(Path.home()), str(gateway_home)
    real = partial(as_kernel_finds, user_home, own)
    return Places(user_home, own, str(cwd), os.getpid(), real, str(workplace))


def places_there(gateway_home: Path, cwd: Path) -> Places:
    """Return the places for a command on another host, whose files cannot be looked up. Its home directory is
    taken to have the name of ours."""
    return Places(str(Path.home()), str(gateway_home), str(cwd), os.getpid(), workplace=str(cwd))


def as_kernel_finds(user_home: str, gateway_home: str, path: str) -> str:
    """Return the path of a file after every link. Of a file with several names (hard links) return the
    protected one, if a file of a login or of the gateway is among them."""
    real = os.path.realpath(path)
    try:
        facts = os.stat(real)
        if not stat.S_ISREG(facts.st_mode) or facts.st_nlink == 1:
            return real
        own = [entry.path for entry in os.scandir(gateway_home)] if os.path.isdir(gateway_home) else []
    except OSError:
        return real
    for other in (*login_files(user_home), *own):
        with suppress(OSError):
            if os.path.samestat(facts, os.stat(other)):
                return other
    return real


def _and_above(home: str) -> list[str]:
    places = [home]
    while places[-1] != posixpath.dirname(places[-1]):
        places.append(posixpath.dirname(places[-1]))
    return places
