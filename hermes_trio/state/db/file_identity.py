"""The identity of the open database files, and a copy for the case that they were removed or replaced.

A sync tool, a restore or a person may remove or replace `gateway.db` or its log under a running gateway.
SQLite continues with the files it has open, and at the next start everything committed since then is gone.
So the path is checked after each commit, before its callers are released: acknowledged data is in the file
that the next start opens, or in the copy that is saved here.

| at the path | destination of the saved copy |
|---|---|
| nothing, or our file without its log | the path, so that the next start continues with it |
| another database | beside it, as `gateway.db.saved-<time>`; the other one stays untouched |

An overwrite in place (`cp old gateway.db`) keeps the inode and is not detected.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path

from ...base.world import World
from ...host.files.private_files import make_private_dir, open_private, sync_dir

_LOGS = ("-wal", "-shm")


class FileIdentity:
    """Device and inode of each file of a database, noted when it was opened."""

    def __init__(self, path: Path) -> None:
        self.path = path
        names = [str(path), *(f"{path}{suffix}" for suffix in _LOGS)]
        self._known = {name: facts for name in names if (facts := _facts(name)) is not None}

    def changed(self) -> bool:
        """Return whether one of the files was removed or replaced."""
        return any(_facts(name) != facts for name, facts in self._known.items())

    def is_ours(self, path: Path) -> bool:
        """Return whether the file at this path is one of the opened files."""
        facts = _facts(str(path))
        return facts is not None and facts == self._known.get(str(path))


def save_copy(connection: sqlite3.Connection, files: FileIdentity, world: World) -> Path:
    """Write the content of the open database to a new file, and return its path. Blocks. Raises OSError or
    sqlite3.Error; then nothing has changed, and the caller may retry."""
    path = files.path
    make_private_dir(path.parent)
    unfinished = path.with_name(f"{path.name}.saved.part")
    unfinished.unlink(missing_ok=True)
    os.close(open_private(unfinished, os.O_RDWR))
    with closing(sqlite3.connect(unfinished)) as copy:
        connection.backup(copy)
        copy.execute("PRAGMA journal_mode = DELETE")  # one file without a log, safe to move
    free = path if files.is_ours(path) or not path.exists() else None
    aside = _free_name(path, world)
    for log in (Path(f"{path}{suffix}") for suffix in _LOGS):
        # SQLite would play this log back into any database at the same path.
        if files.is_ours(log):
            log.unlink()
        elif free is not None and log.exists():
            log.replace(aside.with_name(aside.name + log.name.removeprefix(path.name)))
    saved = _rename_copy(unfinished, free, aside, over=files.is_ours(path))
    sync_dir(saved.parent)
    return saved


def _rename_copy(unfinished: Path, free: Path | None, aside: Path, *, over: bool) -> Path:
    """Rename the copy to `free` if that name is still free or `over` allows replacing it, else to `aside`."""
    if free is not None and not over:
        try:
            os.link(unfinished, free)  # unlike a rename it never replaces a file
        except FileExistsError:
            free = None
        except OSError:
            pass  # a file system without hard links
        else:
            unfinished.unlink()
            return free
    return unfinished.replace(free or aside)


def _free_name(path: Path, world: World) -> Path:
    name, number = f"{path.name}.saved-{world.now():%Y%m%dT%H%M%S}", 1
    while path.with_name(name if number == 1 else f"{name}-{number}").exists():
        number += 1
    return path.with_name(name if number == 1 else f"{name}-{number}")


def _facts(name: str) -> tuple[int, int] | None:
    """Return device and inode of a file; None if it does not exist or cannot be inspected (no permission),
    which counts as removed."""
    try:
        facts = os.stat(name)
    except OSError:
        return None
    return facts.st_dev, facts.st_ino
