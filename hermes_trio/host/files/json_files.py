"""Small files that pass between processes: the lock's record, markers, the state of the gateway.

Writing is: a file beside it, 0600, renamed over it; who reads sees the old one or the new one, whole.
There is no fsync. A power cut may take the newest file, and after one none of them says anything that
is still true.

Reading is cautious, because others write here too. What lies there may be huge, a directory or a pipe.
"""

from __future__ import annotations

import os
import stat
import tempfile
from contextlib import suppress
from pathlib import Path

LARGEST = 64 * 1024


class UnreadableFile(Exception):
    """What lies at a path is no small file: what is wrong, and its facts."""

    def __init__(self, problem: str, facts: os.stat_result) -> None:
        super().__init__(problem)
        self.facts = facts


def read_small(path: Path) -> tuple[bytes, os.stat_result]:
    """A small file and its facts. Raises `UnreadableFile` or OSError; never waits for anybody."""
    # Opening a pipe would wait for who writes into it.
    fd = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    try:
        facts = os.fstat(fd)
        if not stat.S_ISREG(facts.st_mode):
            raise UnreadableFile("is not a file", facts)
        data = b""
        while len(data) <= LARGEST and (more := os.read(fd, LARGEST + 1 - len(data))):
            data += more
    finally:
        os.close(fd)
    if len(data) > LARGEST:
        raise UnreadableFile(f"is larger than {LARGEST} bytes", facts)
    return data, facts


def write_small(path: Path, data: bytes) -> None:
    """Put a file at `path`, whole, for its owner alone. What goes wrong is raised."""
    fd, beside = tempfile.mkstemp(prefix=f"{path.name}.", suffix=".tmp", dir=path.parent)
    try:
        with open(fd, "wb") as file:
            file.write(data)
        os.replace(beside, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(beside)
        raise


def remove_if_same(path: Path, facts: os.stat_result) -> bool:
    """Remove the file that was read, and not one that has been put in its place since. False if there
    is no such file. Raises OSError."""
    if not stat.S_ISREG(facts.st_mode):
        return False
    aside = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    try:
        os.replace(path, aside)
    except FileNotFoundError:
        return False
    taken = aside.stat()
    if (taken.st_ino, taken.st_mtime_ns) == (facts.st_ino, facts.st_mtime_ns):
        aside.unlink()
        return True
    os.replace(aside, path)
    return False
