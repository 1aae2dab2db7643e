"""Small files that pass between processes: the record of the lock, markers, the state of the gateway.

A file is written beside its place, 0600, and renamed over it, so a reader sees the old file or the new one,
whole. There is no fsync: a power cut may lose the newest file, and after a power cut none of these files is
still true.

Reading is cautious, because other programs write here too: a path may hold a huge file, a directory or a
pipe.
"""

from __future__ import annotations

import os
import stat
import tempfile
from contextlib import suppress
from pathlib import Path

LARGEST = 64 * 1024


class UnreadableFile(Exception):
    """The path holds no small file. Has the problem as text, and the `stat` result."""

    def __init__(self, problem: str, facts: os.stat_result) -> None:
        super().__init__(problem)
        self.facts = facts


def read_small(path: Path) -> tuple[bytes, os.stat_result]:
    """Return the content of a small file and its `stat` result. Raises `UnreadableFile` or OSError. Never
    waits for another process."""
    # Without O_NONBLOCK, opening a pipe waits for a writer.
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
    """Write a whole file at `path`, readable by its owner alone. Raises OSError."""
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
    """Remove the file that was read, and not a file that replaced it since. Return False if there is no such
    file. Raises OSError."""
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
