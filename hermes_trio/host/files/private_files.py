"""Files and directories that only their owner may read.

Everything below the home holds conversations, so what we create is 0700 and 0600 whatever the umask.
Directories that were there before are left as they are: a home set to a shared place by mistake must
not change the rights of that place. Where the system has no such modes (Windows), the account's own
directory protects, and these calls do what they can.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

PRIVATE_DIR = 0o700
PRIVATE_FILE = 0o600


def make_private_dir(path: Path) -> None:
    """Make `path` and what is missing above it, each readable by its owner alone."""
    missing = [path, *path.parents]
    missing = missing[: next((i for i, p in enumerate(missing) if p.exists()), len(missing))]
    for directory in reversed(missing):
        try:
            directory.mkdir(mode=PRIVATE_DIR)
        except FileExistsError:
            continue
        directory.chmod(PRIVATE_DIR)  # mkdir's mode passes the umask, chmod does not
    if not path.is_dir():
        raise NotADirectoryError(20, "is not a directory", str(path))


def open_private(path: Path, flags: int) -> int:
    """Open `path` with `flags`, made if missing, and see to it that only its owner may read it. What is
    no file keeps its rights: `path` may be a link to /dev/null."""
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
    """Whether `path`, which exists, is on a disk that is mounted read-only."""
    return hasattr(os, "statvfs") and bool(os.statvfs(path).f_flag & os.ST_RDONLY)


def sync_dir(path: Path) -> None:
    """Make the names in `path` durable, where a directory can be opened and synced for that."""
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
