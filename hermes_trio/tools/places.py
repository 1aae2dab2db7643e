"""The places that commands are judged by: what a machine stands on, and what lets people in. Pure."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase

from .command_line import UNKNOWN, UNSET

_GROUND = (
    "/", "/bin", "/boot", "/dev", "/etc", "/home", "/lib", "/lib32", "/lib64", "/opt", "/proc", "/root",
    "/run", "/sbin", "/srv", "/sys", "/usr", "/usr/bin", "/usr/lib", "/usr/local", "/usr/sbin", "/usr/share",
    "/var", "/var/lib", "/var/log", "/mnt", "/media", "/Users", "/System", "/Library", "/Applications",
    "/private", "/private/etc", "/private/var", "/Volumes",
)  # fmt: skip
_OF_THE_SYSTEM = re.compile(
    r"/(private/)?(etc|boot|bin|sbin|lib(32|64)?|usr/(?!local/|src/)\w+|sys|proc|var/spool/cron|System|Library)(/|$)",
    re.I,
)
_LETS_IN = re.compile(
    r"/\.(ssh|gnupg|aws|kube|docker|azure)(/|$)|/\.config/(fish|autostart|systemd|gh|gcloud)(/|$)|/Launch(Agents|Daemons)/|"
    r"/\.(bashrc|bash_profile|bash_login|bash_logout|bash_aliases|profile|zshrc|zprofile|zshenv|zlogin|cshrc|tcshrc|"
    r"kshrc|netrc|npmrc|pypirc|pgpass|gitconfig|git-credentials|pam_environment|xinitrc|xprofile)$|"
    r"/\.git/hooks/|/\.env(\.(?!example$|sample$|template$|dist$)[^/]*)?$|/(id_rsa|id_ed25519|authorized_keys)$",
    re.I,
)
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

    def resolved(self, target: str, cwd: str | None) -> str:
        """A path as an absolute one; one that names everything in a directory is the directory."""
        if target.startswith("~") and not target.startswith("~/"):
            name, _, rest = target[1:].partition("/")
            target = (
                f"{posixpath.dirname(self.user_home)}/{name}/{rest}" if name else f"{self.user_home}/{rest}"
            )
        elif target.startswith("~/"):
            target = self.user_home + target[1:]
        head, _, last = target.rstrip("/").rpartition("/")
        if _ALL_OF_IT.fullmatch(last):
            target = head or ("/" if target.startswith("/") else ".")
        if not target.startswith("/"):
            target = f"{cwd}/{target}" if cwd is not None else target
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
        """Whether whoever writes this changes the system, or who is let in."""
        return (
            bool(_OF_THE_SYSTEM.match(path) or _LETS_IN.search(f"/{path}"))
            or path == self.gateway_home
            or path.startswith(self.gateway_home + "/")
        )

    def is_raw(self, path: str) -> bool:
        """Whether this is a disk."""
        return bool(_RAW.match(path))


def _and_above(home: str) -> list[str]:
    places = [home]
    while places[-1] != posixpath.dirname(places[-1]):
        places.append(posixpath.dirname(places[-1]))
    return places
