"""Locks that the kernel holds: one holder at a time, and none after the holder has died."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from hermes_trio.host.files.file_lock import lock_by_byte, lock_by_file, try_lock


@pytest.fixture
def fd(tmp_path: Path) -> Iterator[int]:
    opened = os.open(tmp_path / "lock", os.O_RDWR | os.O_CREAT)
    yield opened
    os.close(opened)


@pytest.fixture
def other(tmp_path: Path, fd: int) -> Iterator[int]:
    """The same file, opened a second time."""
    opened = os.open(tmp_path / "lock", os.O_RDWR)
    yield opened
    os.close(opened)


def test_a_lock_has_one_holder_and_lives_as_long_as_its_file_is_open(tmp_path: Path, fd: int) -> None:
    assert try_lock(fd)
    for _ in range(2):
        other = os.open(tmp_path / "lock", os.O_RDWR)
        assert not try_lock(other), "closing a refused file does not free the lock"
        os.close(other)


def test_closing_the_file_frees_its_lock(tmp_path: Path) -> None:
    for _ in range(3):
        fd = os.open(tmp_path / "lock", os.O_RDWR | os.O_CREAT)
        assert try_lock(fd)
        os.close(fd)


def test_a_locked_file_can_be_read_and_written(tmp_path: Path, fd: int) -> None:
    os.write(fd, b"before")
    assert try_lock(fd)
    os.write(fd, b" after")
    assert (tmp_path / "lock").read_bytes() == b"before after", "the position in the file is unchanged"


HOLDS = """
import os, sys
from hermes_trio.host.files.file_lock import try_lock
print(try_lock(os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)), flush=True)
sys.stdin.read()
"""


def test_another_process_cannot_lock_until_the_holder_is_killed(tmp_path: Path, fd: int) -> None:
    """No cleanup and no comparison of pids is needed."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLDS, str(tmp_path / "lock")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "True\n"
        assert not try_lock(fd)
        holder.kill()
    assert try_lock(fd)
    second = subprocess.run(
        [sys.executable, "-c", HOLDS, str(tmp_path / "lock")],
        input="", capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert second.stdout == "False\n"


# --- the ways of both systems, on any system ----------------------------------------------------------


@pytest.mark.skipif(sys.platform == "win32", reason="needs fcntl")
def test_lock_by_file_locks_the_whole_file(fd: int, other: int) -> None:
    import fcntl

    assert lock_by_file(fd, fcntl)
    assert not lock_by_file(other, fcntl)


@pytest.mark.skipif(sys.platform == "win32", reason="needs fcntl")
def test_an_error_of_flock_is_raised(fd: int) -> None:
    import fcntl

    closed = os.dup(fd)
    os.close(closed)
    with pytest.raises(OSError) as refused:
        lock_by_file(closed, fcntl)
    assert refused.value.errno == errno.EBADF


class Windows:
    """Locks like `msvcrt`: it locks bytes from the current position, and refuses with EACCES bytes that
    another open file has locked. Others can neither read nor write a locked byte."""

    LK_NBLCK = 2

    def __init__(self) -> None:
        self.holder_of: dict[int, int] = {}

    def locking(self, fd: int, mode: int, nbytes: int, /) -> None:
        assert mode == self.LK_NBLCK, "it must not wait"
        start = os.lseek(fd, 0, os.SEEK_CUR)
        places = range(start, start + nbytes)
        if any(self.holder_of.get(place, fd) != fd for place in places):
            raise PermissionError(errno.EACCES, "Permission denied")
        self.holder_of.update(dict.fromkeys(places, fd))


def test_lock_by_byte_admits_one_holder(fd: int, other: int) -> None:
    windows = Windows()
    assert lock_by_byte(fd, windows)
    assert not lock_by_byte(other, windows)
    windows.holder_of.clear()  # as the system does when the holder closes the file or dies
    assert lock_by_byte(other, windows)


def test_the_locked_byte_is_far_after_any_data(fd: int, other: int) -> None:
    """But within 2 GiB, the limit of some C libraries."""
    windows = Windows()
    os.write(fd, b"0123456789")
    assert lock_by_byte(fd, windows)
    [place] = windows.holder_of
    assert 1 << 30 <= place < (1 << 31) - 1
    assert os.fstat(fd).st_size == 10, "the file has not grown"


def test_locking_a_byte_keeps_the_position_in_the_file(fd: int, other: int) -> None:
    windows = Windows()
    os.write(fd, b"0123456789")
    os.lseek(fd, 4, os.SEEK_SET)
    os.lseek(other, 7, os.SEEK_SET)
    assert lock_by_byte(fd, windows)
    assert not lock_by_byte(other, windows)
    assert (os.read(fd, 2), os.read(other, 2)) == (b"45", b"78")


def test_an_error_of_byte_locking_is_raised(fd: int) -> None:
    """A file that cannot be locked does not count as locked: its holder could never be found."""

    class Broken(Windows):
        def locking(self, fd: int, mode: int, nbytes: int, /) -> None:
            raise OSError(errno.EINVAL, "Invalid argument")

    os.write(fd, b"0123456789")
    with pytest.raises(OSError, match="Invalid argument"):
        lock_by_byte(fd, Broken())
    assert os.lseek(fd, 0, os.SEEK_CUR) == 10
