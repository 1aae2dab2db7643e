"""Whether the files of an open database are still the files at its path, and what to do if not.

A sync tool, a restore or a hasty hand may remove or replace `gateway.db` or its log under a running
gateway. SQLite goes on with the files that it has open, and at the next start all that was committed
since then is gone. So each commit is followed by a look at the path, before its callers are released: what
was acknowledged is in the file that the next start opens, or in the copy that is saved here.

| what is at the path | where the saved copy goes |
|---|---|
| nothing, or our file without its log | to the path, so that the next start goes on with it |
| another database | beside it, as `gateway.db.saved-<time>`; the other one is left untouched |

An overwrite in place (`cp old gateway.db`) keeps the inode and is not noticed by this.
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
    """The device and inode of each file of a database, as they were when it was opened."""

    def __init__(self, path: Path) -> None:
        self.path = path
        names = [str(path), *(f"{path}{suffix}" for suffix in _LOGS)]
        self._known = {name: facts for name in names if (facts := _facts(name)) is not None}

    def changed(self) -> bool:
        """Whether one of the files was removed or replaced."""
        return any(_facts(name) != facts for name, facts in self._known.items())

    def is_ours(self, path: Path) -> bool:
        """Whether the file at this path is one of those that were opened."""
        facts = _facts(str(path))
        return facts is not None and facts == self._known.get(str(path))


def save_copy(connection: sqlite3.Connection, files: FileIdentity, world: World) -> Path:
    """Write all that the open database holds to a new file, and return its path. Blocks. Raises OSError
    and sqlite3.Error; then nothing has changed, and it may be tried again."""
    path = files.path
    make_private_dir(path.parent)
    unfinished = path.with_name(f"{path.name}.saved.part")
    unfinished.unlink(missing_ok=True)
    os.close(open_private(unfinished, os.O_RDWR))
    with closing(sqlite3.connect(unfinished)) as copy:
        connection.backup(copy)
        copy.execute("PRAGMA journal_mode = DELETE")  # whole in one file, wherever somebody moves it
    free = path if files.is_ours(path) or not path.exists() else None
    aside = _free_name(path, world)
    for log in (Path(f"{path}{suffix}") for suffix in _LOGS):
        # SQLite would play a log back into any database that lies beside it.
        if files.is_ours(log):
            log.unlink()
        elif free is not None and log.exists():
            log.replace(aside.with_name(aside.name + log.name.removeprefix(path.name)))
    saved = _placed(unfinished, free, aside, over=files.is_ours(path))
    sync_dir(saved.parent)
    return saved


def _placed(unfinished: Path, free: Path | None, aside: Path, *, over: bool) -> Path:
    """Give the copy its name: `free` if that is still free, or is to be replaced, else `aside`."""
    if free is not None and not over:
        try:
            os.link(unfinished, free)  # which replaces nothing, unlike a rename
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
    """The device and inode of the file of this name; None if there is none. What cannot be looked at (no
    permission) raises nothing and counts as removed."""
    try:
        facts = os.stat(name)
    except OSError:
        return None
    return facts.st_dev, facts.st_ino
