"""Files and directories that only their owner may read.

Everything below the home holds conversations, so the files we create are 0600 and the directories 0700,
whatever the umask. Existing directories keep their rights: a home that was set to a shared directory by
mistake must not change the rights of that directory. On Windows, which has no such modes, the account's own
directory protects the files.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

PRIVATE_DIR = 0o700
PRIVATE_FILE = 0o600


def make_private_dir(path: Path) -> None:
    """Make `path` and its missing parents, each readable by its owner alone."""
    missing = [path, *path.parents]
    missing = missing[: next((i for i, p in enumerate(missing) if p.exists()), len(missing))]
    for directory in reversed(missing):
        try:
            directory.mkdir(mode=PRIVATE_DIR)
        except FileExistsError:
            continue
        directory.chmod(PRIVATE_DIR)  # the umask applies to mkdir's mode, and not to chmod
    if not path.is_dir():
        raise NotADirectoryError(20, "is not a directory", str(path))


def open_private(path: Path, flags: int) -> int:
    """Open `path` with `flags`, create it if missing, and let only its owner read it. Anything but a regular
    file keeps its rights: `path` may be a link to /dev/null."""
    binary = getattr(os, "O_BINARY", 0)
    fd = os.open(path, flags | os.O_CREAT | binary, PRIVATE_FILE)
    mode = os.fstat(fd).st_mode
    if os.name == "posix" and stat.S_ISREG(mode) and stat.S_IMODE(mode) != PRIVATE_FILE:
        try:
            os.fchmod(fd, PRIVATE_FILE)
        except OSError:
            os.close(fd)
            raise
    return fd


def is_read_only(path: Path) -> bool:
    """Return True if `path`, which exists, is on a disk that is mounted read-only."""
    return hasattr(os, "statvfs") and bool(os.statvfs(path).f_flag & os.ST_RDONLY)


def sync_dir(path: Path) -> None:
    """Make the names in the directory `path` durable, where the system can sync a directory."""
    if not hasattr(os, "O_DIRECTORY"):
        return
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
    finally:
        os.close(fd)
