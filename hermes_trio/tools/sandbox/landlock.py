"""Landlock: a command that gives up the right to open files beyond those of its session, and to reach other
programs.

Where the kernel lets it, the command also gets a file system, shared memory and a network of its own, as
under bubblewrap. Where it does not, Landlock is alone. It can only allow whole directories, so a directory
with something hidden in it is not allowed itself, but everything else in it is. Names can be listed
everywhere then, `/tmp` is shared, what lies in a writable directory is not protected there, and a command
gets no terminal, because it could read those of people.
"""

from __future__ import annotations

import marshal
import os
import sys
from base64 import b64encode
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

from ...base.errors import GatewayError
from ..safety.protected_paths import own_program_directories
from . import landlock_program, proxy_program
from .call_filter import NETWORK, PROGRAMS, full_filter
from .mounts import mounts_of
from .views import TEMPORARY, FileAccess, Grants, Room, Views, login_directories, views_of

LONGEST_RULES = 100_000
"""Bytes of the rules, which are an argument of the program."""
_NO_DEVICE = {"/dev": FileAccess.HIDDEN}
_DEVICES = ("null", "zero", "full", "random", "urandom", "tty", "ptmx", "fd")


class TooManyPlaces(GatewayError):
    """The hidden places lie among too many others."""

    def __init__(self) -> None:
        super().__init__(
            "The sandbox cannot be set up: hidden files lie in directories with too many others. Install "
            "bubblewrap, or clean these directories up."
        )


def command_line(
    command: Sequence[str],
    cwd: Path,
    room: Room,
    grants: Grants,
    channel: int | None = None,
    *,
    alone: bool,
) -> list[str]:
    """Return the command line that runs a command in this sandbox. `cwd` is a path in the sandbox, and
    `channel` the one to its proxy. With `alone` it gets no file system of its own, and a network of its own
    only for the proxy. Raises `TooManyPlaces`."""
    if channel is not None:
        command = proxy_program.command_line(command, channel)
    own_network = not grants.network if not alone else channel is not None
    views = views_of(room, grants)
    families: tuple[int, ...]
    if alone:
        mounts, families = None, NETWORK if grants.network or own_network else ()
        read, write = _rules_alone(room, views)
    else:
        families = (*NETWORK, *PROGRAMS)  # those of other programs are hidden
        mounts = [(str(one.kind), one.path, one.source) for one in mounts_of(views, str(room.temporary))]
        read, write = rules_of({**_NO_DEVICE, **dict.fromkeys(TEMPORARY, FileAccess.WRITE), **views})
    read.append(os.path.realpath("/etc/resolv.conf"))
    rules = b64encode(
        marshal.dumps(
            {
                "read": read,
                "write": write,
                "devices": [f"/dev/{name}" for name in (*_DEVICES, *(() if alone else ("pts",)))],
                "calls": full_filter(families),
                "mounts": mounts,
                "own_network": own_network,
                "cwd": str(cwd),
            }
        )
    ).decode()
    if len(rules) > LONGEST_RULES:
        raise TooManyPlaces
    return [sys.executable, "-I", "-S", str(Path(landlock_program.__file__)), rules, *command]


def exposed(room: Room, grants: Grants) -> Views:
    """Return the views that Landlock alone does not put into effect: protected places inside of a directory
    that a command may write."""
    views = views_of(room, grants)
    _, write = _rules_alone(room, views)
    return {
        path: access
        for path, access in views.items()
        if access is not FileAccess.WRITE and any(Path(path).is_relative_to(top) for top in write)
    }


def _rules_alone(room: Room, views: Views) -> tuple[list[str], list[str]]:
    kept = {*login_directories(), *own_program_directories(), os.path.realpath(room.home)}
    shared = {path: _shared(path, kept) for path in TEMPORARY}
    return rules_of({**_NO_DEVICE, **shared, **views}, kept)


def _shared(path: str, kept: Collection[str]) -> FileAccess:
    """Return the access to a shared directory: none if a directory that is kept lies there."""
    return FileAccess.HIDDEN if any(Path(one).is_relative_to(path) for one in kept) else FileAccess.WRITE


def rules_of(views: Views, kept: Collection[str] = ()) -> tuple[list[str], list[str]]:
    """Return the paths that may be read and those that may be written. The views below a writable directory
    have no effect, unless one of the directories `kept` lies there: then no file can be created in it."""
    inner = {parent for path in views for parent in _parents(path)}
    divided = {parent for path in kept for parent in (path, *_parents(path))}
    read: list[str] = []
    write: list[str] = []
    waiting = [("/", views["/"])]
    while waiting:
        path, access = waiting.pop()
        access = views.get(path, access)
        if access is FileAccess.WRITE and path not in divided:
            write.append(path)
        elif path in inner:
            waiting += ((child, access) for child in _children(path))
        elif access is not FileAccess.HIDDEN:
            read.append(path)
    return read, write


def _parents(path: str) -> Iterator[str]:
    while path != "/":
        path = os.path.dirname(path)
        yield path


def _children(path: str) -> list[str]:
    try:
        return [entry.path for entry in os.scandir(path) if not entry.is_symlink()]
    except OSError:
        return []
