"""The places that commands are judged by: what a machine stands on, and what is protected. Pure, but for
`as_kernel_finds`, which asks the file system."""

from __future__ import annotations

import os
import posixpath
import re
import stat
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from fnmatch import fnmatchcase

from .command_line import UNKNOWN, UNSET
from .protected_paths import folded, holds_protected, is_below, level_of, login_files, own_program

_GROUND = (
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
    """Where we are, as far as commands are judged by it."""

    user_home: str
    gateway_home: str
    cwd: str
    pid: int
    """The gateway's own."""
    real: Callable[[str], str] = str
    """The name under which the kernel finds the file of a path; the path itself if nobody asks the kernel."""
    workplace: str = ""
    """Where the agent is to work, which may be a directory within the gateway's home."""

    @property
    def variables(self) -> Mapping[str, str]:
        """What a command finds in its environment."""
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
        """A path as an absolute one with its `..`, which the kernel resolves after the links before it."""
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

    def resolved(self, target: str, cwd: str | None) -> str:
        """A path as an absolute one; one that names everything in a directory is the directory."""
        head, _, last = target.rstrip("/").rpartition("/")
        if _ALL_OF_IT.fullmatch(last):
            target = head or ("/" if target.startswith("/") else ".")
        target = self.absolute(target, cwd)
        return re.sub(r"^//+", "/", posixpath.normpath(target)) if target else ""

    def is_ground(self, path: str) -> bool:
        """Whether the system, the login or the gateway stands on this."""
        folded = path.casefold()
        own = [place for home in (self.user_home, self.gateway_home) for place in _and_above(home)]
        # A variable that nobody set is empty, and then its path is that of what stands around it.
        empty = re.sub(f"[{UNKNOWN}{UNSET}]", "", folded) or "/" if folded.startswith("/") else folded
        return any(
            each.casefold() == folded or fnmatchcase(each.casefold(), folded) or each.casefold() == empty
            for each in (*_GROUND, *own)
            if folded.startswith("/")
        )

    def is_protected(self, path: str) -> bool:
        """Whether whoever writes this changes the system, a login, what runs later, or the gateway."""
        return self.is_gateways(path) or level_of(folded(f"/{path}".replace("//", "/"))) is not None

    def is_gateways(self, path: str) -> bool:
        """Whether this is in the gateway's home, or a part of its program."""
        parts, homes = folded(path), {folded(self.gateway_home), folded(self.real(self.gateway_home))}
        if any(is_below(parts, top) for top in own_program()):
            return True
        workplace = folded(self.real(self.workplace)) if self.workplace else ()
        if is_below(parts, workplace) and any(is_below(workplace, home) for home in homes - {workplace}):
            return False  # somebody gave the agent a place to work within the home
        return any(is_below(parts, home) for home in homes)

    def holds_protected(self, path: str) -> bool:
        """Whether a directory that is put there whole may bring a protected file along."""
        return self.is_ground(path) or holds_protected(folded(path))

    def is_raw(self, path: str) -> bool:
        """Whether this is a disk."""
        return bool(_RAW.match(path))


def as_kernel_finds(user_home: str, gateway_home: str, path: str) -> str:
    """The path of a file after every link. Of a file with several names it is the protected one, if one of a
    login or of the gateway is among them."""
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
