"""The parts of the file system that a command of a session cannot see, may read, or may write.

`views_of` is the only place that decides this; the sandboxes put it into effect. A path that is not named has
the access of the nearest directory above it.

| access | places |
|---|---|
| hidden | the gateway's home; credentials of every login; sockets and other run-time files |
| read | everything else; files that run later, also in a writable directory |
| write | the work directory, `terminal.writable`, and what a person has allowed for this command |
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path

import msgspec

from ..safety.protected_paths import (
    Level,
    Parts,
    absolute_places,
    folded,
    folded_name,
    gateway_home,
    holds_protected,
    own_program_directories,
    places_named,
)
from .granted_hosts import Host
from .known_places import with_noted

DEPTH = 8
"""Directories below a writable one in which protected places are looked for."""
MOST_ENTRIES = 5000
"""Directory entries that are looked at in a writable directory."""
HEAVY = frozenset({"node_modules", "site-packages", ".venv", "venv", "__pycache__", "target", ".tox", ".git"})
"""Directories with many files, in which no project is expected."""
RUN_TIME_FILES = ("/run", "/var/run")
TEMPORARY = ("/tmp", "/var/tmp")  # noqa: S108 - programs expect to write there, so each sandbox treats them


class FileAccess(IntEnum):
    """Access to a path and everything below it."""

    HIDDEN = 0
    READ = 1
    WRITE = 2


class Grants(msgspec.Struct, frozen=True):
    """Rights of a command beyond its sandbox, which a person or the configuration has given."""

    network: bool = False
    hosts: tuple[Host, ...] = ()
    """The hosts that it may reach without the network."""
    writable: tuple[Path, ...] = ()
    everything: bool = False
    """True if it runs outside of the sandbox."""


NOTHING = Grants()

Views = Mapping[str, FileAccess]
"""The access to each named path; the paths are real, and `/` is one of them."""


@dataclass(frozen=True, slots=True)
class Room:
    """The directories of one session, as far as its commands are concerned."""

    home: Path
    """The gateway's home, which is hidden."""
    work: Path
    """The work directory."""
    scratch: Path
    """The session's own directory for temporary files and caches, in the gateway's home."""
    files: Path
    """The files that people sent in this session."""
    readable: tuple[Path, ...] = ()
    writable: tuple[Path, ...] = ()
    hidden: tuple[Path, ...] = ()
    """Further directories that are hidden, such as that of the backups."""

    @property
    def temporary(self) -> Path:
        """The session's own directory for temporary files, as it is named outside of the sandbox."""
        return self.scratch / "tmp"

    def can_change(self, path: str) -> bool:
        """Return whether a command can change what lies at this path: the gateway must not load it."""
        real = Path(os.path.realpath(path))
        tops = (self.work, *self.writable, self.temporary)
        return not os.path.isabs(path) or any(real.is_relative_to(os.path.realpath(top)) for top in tops)


def views_of(room: Room, grants: Grants = NOTHING) -> Views:
    """Return what a command of this session sees. A link in a writable directory, which a command can make,
    never shows what is hidden."""
    logins = login_directories()
    roots = tuple(_existing(map(str, (room.work, *room.writable))))
    views = {"/": FileAccess.READ}
    for root in roots:
        views |= _writable(root, logins)
    views |= dict.fromkeys(_existing(own_program_directories()), FileAccess.READ)
    secrets = {
        path for login in logins for path, level in find_places(login, depth=0) if level is Level.SECRET
    }
    secrets |= {*_existing((*RUN_TIME_FILES, *absolute_places(Level.SECRET))), os.path.realpath(room.home)}
    secrets |= {*_existing(map(gateway_home, logins)), *_hidden(room, logins, roots)}
    views |= dict.fromkeys(secrets.difference(roots), FileAccess.HIDDEN)
    for root in roots:
        for path, level in with_noted(root, dict(find_places(root, depth=DEPTH)), room.home).items():
            if path not in roots:
                most = FileAccess.HIDDEN if level is Level.SECRET else FileAccess.READ
                views[path] = min(access_to(path, views), most)
    for path in _existing(map(str, (room.files, *room.readable))):
        views[path] = max(views.get(path, FileAccess.READ), FileAccess.READ)
    for path in _existing(map(str, (room.temporary, *grants.writable))):
        if holds_protected(folded(path)):
            views = {one: access for one, access in views.items() if not _is_opened(one, access, path)}
        views[path] = FileAccess.WRITE
    return views


def _hidden(room: Room, logins: Iterable[str], roots: Iterable[str]) -> Iterator[str]:
    """Yield the directories that the configuration hides; of one that holds a home or a writable directory,
    the protected files at its top."""
    for path in _existing(map(str, room.hidden)):
        if any(Path(one).is_relative_to(path) for one in (*logins, *roots)):
            yield from (found for found, level in find_places(path, depth=0) if level is Level.SECRET)
        else:
            yield path


def _is_opened(path: str, access: FileAccess, granted: str) -> bool:
    """Return whether a file that runs later may be written because a directory such as `.git` was granted,
    whose other files are harmless: git replaces its settings by a rename in that directory."""
    is_own = any(Path(path).is_relative_to(top) for top in own_program_directories())
    return access is FileAccess.READ and not is_own and Path(path).is_relative_to(granted)


def access_to(path: str, views: Views) -> FileAccess:
    """Return the access to a real path."""
    while path not in views:
        path = os.path.dirname(path)
    return views[path]


def login_directories() -> tuple[str, ...]:
    """Return the home directories of the people of this machine, as far as they exist."""
    names = {os.path.expanduser("~"), "/root", *(entry.path for entry in _entries("/home"))}
    return tuple(sorted(set(_existing(names)) - {"/"}))


def find_places(top: str, *, depth: int) -> Iterator[tuple[str, Level]]:
    """Yield the protected places that exist in a directory and in the directories up to `depth` levels below
    it, each with its level."""
    waiting = deque[tuple[str, int, tuple[tuple[Parts, Level], ...]]]([(top, 0, ())])
    seen = 0
    while waiting:
        directory, level, begun = waiting.popleft()
        try:
            entries = list(os.scandir(directory))
        except OSError:
            continue
        seen += len(entries)
        for entry in entries:
            name = folded_name(entry.name)
            named = (*places_named(name), *(one for one in begun if one[0][0] == name))
            longer = tuple((parts[1:], how) for parts, how in named if len(parts) > 1)
            shorter = [how for parts, how in named if len(parts) == 1]
            if shorter and (path := _target(entry)):
                yield path, max(shorter)
            if entry.name == ".git" and entry.is_file(follow_symlinks=False):
                yield entry.path, Level.LATER  # it tells where the hooks and the settings are
            deeper = not shorter and level < depth and seen < MOST_ENTRIES and name not in HEAVY
            if (longer or deeper) and entry.is_dir(follow_symlinks=False):
                waiting.append((entry.path, level + 1, longer))


def _writable(root: str, logins: Iterable[str]) -> dict[str, FileAccess]:
    """Return the views of a directory that may be written. In the home directory of a login only what is
    there already and has no leading dot may be written: a new file there may be one that the login obeys."""
    views = {root: FileAccess.WRITE}
    for login in logins:
        if Path(login).is_relative_to(root):
            views[login] = FileAccess.READ
            views |= {
                entry.path: FileAccess.WRITE
                for entry in _entries(login)
                if not entry.name.startswith(".") and not entry.is_symlink()
            }
    return views


def _target(entry: os.DirEntry[str]) -> str | None:
    """Return the real path of an entry of a directory that is real; None if it is a link that changes."""
    try:
        return os.path.realpath(entry.path) if entry.is_symlink() else entry.path
    except OSError:
        return None


def _entries(directory: str) -> list[os.DirEntry[str]]:
    try:
        return list(os.scandir(directory))
    except OSError:
        return []


def _existing(paths: Iterable[str]) -> Iterator[str]:
    """Yield the real paths of those that exist."""
    return (os.path.realpath(path) for path in paths if os.path.lexists(path))
