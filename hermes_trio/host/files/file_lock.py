"""Locks that the kernel holds and releases when their holder ends.

A lock here is an open file: there is no pid to compare and nothing to clean up after a kill. The file itself
is never unlinked, or two holders could lock two files of the same name.

Most systems lock the open file as a whole, Windows a range of its bytes. Each way is a function that takes
the module it calls, so the tests run both on every system.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Protocol

from ...base.errors import GatewayError

# On Windows other processes cannot read a locked byte, so it is far after any data. It may lie after the end
# of the file, but some C libraries count no further than 2 GiB.
_LOCKED_BYTE = (1 << 31) - 2


class _Fcntl(Protocol):
    """The part of `fcntl` that is used here."""

    @property
    def LOCK_EX(self) -> int: ...  # noqa: N802 - its name in that module
    @property
    def LOCK_NB(self) -> int: ...  # noqa: N802
    def flock(self, fd: int, operation: int, /) -> None: ...


class _Msvcrt(Protocol):
    """The part of `msvcrt` that is used here."""

    @property
    def LK_NBLCK(self) -> int: ...  # noqa: N802
    def locking(self, fd: int, mode: int, nbytes: int, /) -> None: ...


@contextmanager
def sole_use(of: str, identity: str) -> Iterator[bool]:
    """Yield True if this process alone holds the resource during the block, among all processes of this
    account on this machine; False if another one holds it. An example is a bot whose messages only one
    process may read. The identity may be a secret: no file shows it. Raises GatewayError where no lock can be
    made."""
    sealed = hashlib.sha256(f"{of}:{identity}".encode()).hexdigest()[:24]
    state = os.environ.get("XDG_STATE_HOME") or "~/.local/state"
    path = Path(state).expanduser() / "hermes-trio" / "locks" / f"{of}-{sealed}"
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        remedy = "Set XDG_STATE_HOME to a directory of yours."
        raise GatewayError(f"{path.parent}: no lock can be made there, {error.strerror}. {remedy}") from error
    try:
        yield try_lock(fd)
    finally:
        close_locked(fd)


def try_lock(fd: int) -> bool:
    """Take the lock of this open file and hold it until `fd` is closed. Return False if it is taken."""
    if sys.platform == "win32":
        import msvcrt

        return lock_by_byte(fd, msvcrt)
    import fcntl

    return lock_by_file(fd, fcntl)


def close_locked(fd: int) -> None:
    """Release the lock of this open file, and close it. A process that was forked has the file open too, and
    would keep the lock."""
    with suppress(OSError, ImportError):
        import fcntl

        fcntl.flock(fd, fcntl.LOCK_UN)
    os.close(fd)


def lock_by_file(fd: int, fcntl: _Fcntl) -> bool:
    """Lock an open file as a whole. Return False if it is locked already. Raises OSError."""
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def lock_by_byte(fd: int, msvcrt: _Msvcrt) -> bool:
    """Lock one byte of an open file. Return False if it is locked already. Raises OSError."""
    position = os.lseek(fd, 0, os.SEEK_CUR)
    os.lseek(fd, _LOCKED_BYTE, os.SEEK_SET)
    try:
        msvcrt.locking(fd, msvcrt.LK_NBLCK, 1)
    except PermissionError:
        return False
    finally:
        os.lseek(fd, position, os.SEEK_SET)
    return True
