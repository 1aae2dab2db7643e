"""The mounts that put views into effect for a command with a file system of its own.

They are made in order, from the root down, so that the access to a directory inside of another one replaces
that of the outer one. Bubblewrap makes them, or the program of Landlock does.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from .views import TEMPORARY, FileAccess, Views, access_to


class MountKind(StrEnum):
    """The thing that a command finds at a path."""

    READ = "read"
    """The source, which cannot be changed."""
    WRITE = "write"
    """The source."""
    DIRECTORY = "directory"
    """An empty directory, which cannot be changed once all mounts are made."""
    FILE = "file"
    """A file that cannot be opened."""


@dataclass(frozen=True, slots=True)
class Mount:
    """One mount at `path`. The source of a hidden path is empty."""

    kind: MountKind
    path: str
    source: str = ""


def mounts_of(views: Views, temporary: str) -> Iterator[Mount]:
    """Yield the mounts on a file system of which everything can be read. `temporary` is shown in place of the
    directories for temporary files, which are hidden."""
    shown = {"/": FileAccess.READ}
    for path in dict.fromkeys(map(os.path.realpath, TEMPORARY)):
        if path not in views:
            shown[path] = FileAccess.HIDDEN  # what lies there outside
            yield Mount(MountKind.WRITE, path, os.path.realpath(temporary))
    views = _pinned({**views, **dict.fromkeys(_sockets(views), FileAccess.HIDDEN)})
    for path in sorted(views, key=lambda path: path.count("/")):
        access, outer = views[path], _access_above(path, shown)
        if path in shown or (access is FileAccess.HIDDEN and outer is FileAccess.HIDDEN):
            continue
        shown[path] = access
        if access is not FileAccess.HIDDEN:
            kind = MountKind.WRITE if access is FileAccess.WRITE else MountKind.READ
            yield Mount(kind, path, path)
        else:
            yield Mount(MountKind.DIRECTORY if os.path.isdir(path) else MountKind.FILE, path)
    if resolver := _resolver(shown):
        yield Mount(MountKind.READ, resolver, resolver)


def _sockets(views: Views) -> Iterator[str]:
    """Yield the sockets of other programs that a command could reach, although it may not write there."""
    for line in Path("/proc/net/unix").read_text("utf-8", "replace").splitlines():
        path = line.split(maxsplit=7)[-1]
        if path.startswith("/") and os.path.lexists(path):
            real = os.path.realpath(path)
            if access_to(real, views) is FileAccess.READ:
                yield real


def _pinned(views: Views) -> Views:
    """Return the views with the directories that lie between a writable directory and a protected file in it.
    Each becomes a mount: a directory that is none could be renamed, and another one with other files could
    take its name, also while the sandbox of the next command is set up."""
    pinned = dict(views)
    for path, access in views.items():
        while access is not FileAccess.WRITE and path != "/" and (path := os.path.dirname(path)) not in views:
            if access_to(path, views) is FileAccess.WRITE:
                pinned[path] = FileAccess.WRITE
    return pinned


def _access_above(path: str, shown: Views) -> FileAccess:
    while (path := os.path.dirname(path)) not in shown:
        pass
    return shown[path]


def _resolver(shown: Views) -> str | None:
    """Return the file that tells how names are resolved, if it is in a hidden directory."""
    path = os.path.realpath("/etc/resolv.conf")
    return path if os.path.isfile(path) and _access_above(path, shown) is FileAccess.HIDDEN else None
