"""The id of a home among those that share a store, kept in a file of the home.

A copy of a home is another home, although it has the same file: the id counts only in the very file that it
was written to, whose inode number is kept with it. In a copy a new id is made. A copy of a whole disk has the
same numbers; there the file has to be removed.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

import msgspec

from ...base.errors import home_error
from ...base.world import World
from ..files.json_files import UnreadableFile, read_small, write_small

HOME_ID_FILE = "home_id.json"


class _Kept(msgspec.Struct, frozen=True):
    home: str
    inode: int


def home_id(home: Path, world: World) -> str:
    """Return the id of a home, which is made if there is none. The caller holds the lock of the home. Raises
    `HomeError`."""
    path = home / HOME_ID_FILE
    try:
        return kept_home_id(home) or _made(path, world)
    except OSError as error:
        raise home_error(home, error, HOME_ID_FILE) from error


def kept_home_id(home: Path) -> str | None:
    """Return the id of a home; None if none was made. Raises OSError."""
    with suppress(FileNotFoundError, UnreadableFile, msgspec.MsgspecError):
        data, facts = read_small(home / HOME_ID_FILE)
        kept = msgspec.json.decode(data, type=_Kept)
        return kept.home if kept.inode == facts.st_ino else None
    return None


def _made(path: Path, world: World) -> str:
    """Make an id. The file keeps its inode number when it is renamed to its place."""
    made, beside = world.new_id(), path.with_name(f"{path.name}.new")
    write_small(beside, b"")
    inode = beside.stat().st_ino
    with open(beside, "r+b") as file:
        file.write(msgspec.json.encode(_Kept(made, inode)))
        file.flush()
        os.fsync(file.fileno())
    os.replace(beside, path)
    return made
