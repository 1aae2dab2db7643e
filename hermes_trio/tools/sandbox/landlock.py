"""Landlock: a command that gives up the right to open files beyond those of its session, and to open sockets.

The kernel can only allow whole directories, so a directory with something hidden in it is not allowed itself,
but everything else in it is. Three things are weaker than under bubblewrap, as the documentation says: names
can be listed everywhere, `/tmp` is shared, and what lies in a writable directory is not protected there.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

from ...base.errors import GatewayError
from ..safety.protected_paths import own_program_directories
from . import landlock_program, proxy_program
from .call_filter import full_filter
from .views import TEMPORARY, FileAccess, Grants, Room, Views, login_directories, views_of

LONGEST_RULES = 100_000
"""Bytes of the rules, which are an argument of the program."""
_DEVICES = ("null", "zero", "full", "random", "urandom", "tty", "ptmx", "pts", "fd")


class TooManyPlaces(GatewayError):
    """The hidden places lie among too many others."""

    def __init__(self) -> None:
        super().__init__(
            "The sandbox cannot be set up: hidden files lie in directories with too many others. Install "
            "bubblewrap, or clean these directories up."
        )


def command_line(command: Sequence[str], room: Room, grants: Grants, channel: int | None = None) -> list[str]:
    """Return the command line that runs a command in this sandbox. `channel` is the one to its proxy: the
    command has a network of its own then, because the kernel could only allow a port, of every host. Raises
    `TooManyPlaces`."""
    kept = {*login_directories(), *own_program_directories(), os.path.realpath(room.home)}
    views = {**{path: _shared(path, kept) for path in TEMPORARY}, **views_of(room, grants)}
    read, write = rules_of(views, kept)
    read.append(os.path.realpath("/etc/resolv.conf"))
    rules = json.dumps(
        {
            "read": read,
            "write": write,
            "devices": [f"/dev/{name}" for name in _DEVICES],
            "calls": full_filter(network=grants.network or channel is not None).hex(),
        }
    )
    if len(rules) > LONGEST_RULES:
        raise TooManyPlaces
    program = Path(landlock_program.__file__)
    line = [sys.executable, "-I", "-S", str(program), rules, *command]
    return line if channel is None else proxy_program.command_line(line, channel, own_network=True)


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
