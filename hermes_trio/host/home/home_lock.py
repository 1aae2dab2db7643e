"""One gateway per home: the process that holds the lock of the home directory is the gateway.

The lock is the kernel's (`try_lock`), so it ends with its holder however that dies. It is taken twice:

- On the home *directory* itself. Nobody removes that in passing, so this lock decides.
- On `gateway.lock` in it, for other programs and for file systems on which a directory cannot be locked.
  Other programs have a file of this name too, and some remove it as stale: a lock on it alone would let
  two gateways lock two files of one name. A file that was removed is put back (`restore_file`).

Others want to know whether a gateway runs, and must never hinder one that starts. A lock can be tried
only by taking it, and whoever tries makes a start fail that falls into the same moment. So only a
starting gateway touches the lock; the holder shows two things to look at:

- A *lamp*, on Linux: a second lock of another kind (an open-file-description lock), which the kernel
  lets others ask about (`F_OFD_GETLK`) without taking it, and from any container. Only the holder of the
  lock lights it, so nobody is ever refused it. `/proc/locks` was rejected: it hides what another pid
  namespace holds, and its device numbers are not those of `stat` on btrfs and overlays. Plain record
  locks were rejected: they are lost as soon as any reader in the process closes the file.
- A *record* in the file: the process, for people, and where there is no lamp for us. It counts only
  while that very process lives, so a stale one means nothing.

Both kinds of lock belong to the open file. A child that is forked and keeps the descriptor would hold
them on; it is close-on-exec, and all our children are exec'ed.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import msgspec

from ...base.errors import HomeBusy, home_error
from ..files.file_lock import try_lock
from ..files.json_files import UnreadableFile, read_small
from ..files.private_files import make_private_dir, open_private
from ..processes.process_identity import ProcessId, is_alive, own
from .state_file import read_status

LOCK_FILE = "gateway.lock"


class HomeLock:
    """The lock of a home that this process holds. Made by `locked_home`."""

    def __init__(self, home: Path, process: ProcessId, fd: int) -> None:
        self.process = process
        self._home = home
        self._fds = [fd]
        """The lock file, and before it those that were removed."""

    def restore_file(self) -> bool:
        """Put `gateway.lock` back if it was removed or replaced. False if it is there, or another program
        has locked the one that is there now. Raises OSError; the home stays locked all the same."""
        path = self._home / LOCK_FILE
        with suppress(FileNotFoundError):
            if os.path.samestat(path.stat(), os.fstat(self._fds[-1])):
                return False
        fd = _taken(path, self.process)
        if fd is None:
            return False
        self._fds.append(fd)
        return True

    def _close(self) -> None:
        with suppress(OSError):
            _record(self._fds[-1], b"")
        for fd in self._fds:
            os.close(fd)


@contextmanager
def locked_home(home: Path) -> Iterator[HomeLock]:
    """Make `home` if need be, and be its only gateway for as long as the block lasts.

    Raises `HomeBusy` when another one is, another `HomeError` when the directory cannot serve.
    """
    me = own()
    with ExitStack() as held:
        try:
            make_private_dir(home)
            directory = _opened_dir(home)
            if directory is not None:
                held.callback(os.close, directory)
                if not _directory_taken(directory):
                    raise _busy(home)
            fd = _taken(home / LOCK_FILE, me)
        except OSError as error:
            raise home_error(home, error) from error
        if fd is None:
            raise _busy(home)
        lock = HomeLock(home, me, fd)
        held.callback(lock._close)
        yield lock


def is_locked(home: Path) -> bool:
    """Whether a gateway has this home. Looks, and takes nothing: no start ever fails by it."""
    return _is_lit(home) or recorded_holder(home) is not None


def refuse_if_busy(home: Path) -> None:
    """Raise `HomeBusy` if a gateway has this home: for who is about to touch files there that are its own.
    The lock alone decides, a moment later."""
    if is_locked(home):
        raise _busy(home)


def recorded_holder(home: Path) -> ProcessId | None:
    """The gateway of this home by its own record, if that very process lives. Where the record is lost, the
    state file tells, as long as a gateway surely holds the home."""
    process = None
    with suppress(OSError, UnreadableFile, msgspec.MsgspecError):
        data, _ = read_small(home / LOCK_FILE)
        process = msgspec.json.decode(data, type=ProcessId)
    if process is not None and is_alive(process):
        return process
    status = read_status(home) if _is_lit(home) else None
    return status.process if status is not None and is_alive(status.process) else None


def _busy(home: Path) -> HomeBusy:
    holder = recorded_holder(home)
    return HomeBusy(home, holder.pid if holder else None)


def _opened_dir(home: Path) -> int | None:
    """The home directory as an open file; None on systems that have no such thing."""
    if not hasattr(os, "O_DIRECTORY"):
        return None
    return os.open(home, os.O_RDONLY | os.O_DIRECTORY)


def _directory_taken(fd: int) -> bool:
    """Lock the home directory. False if another process has it. Some network file systems lock no
    directory: there the lock file alone decides."""
    with suppress(OSError):
        if not try_lock(fd):
            return False
        _light(fd)
    return True


def _taken(path: Path, me: ProcessId) -> int | None:
    """Open and lock the lock file, with the record of this process in it. None if another process has it."""
    fd = open_private(path, os.O_RDWR)
    with ExitStack() as unless_taken:
        unless_taken.callback(os.close, fd)
        if not try_lock(fd):
            return None
        with suppress(OSError):  # a file system that has no such locks; the record tells as well
            _light(fd)
        _record(fd, msgspec.json.encode(me))
        unless_taken.pop_all()
    return fd


def _record(fd: int, data: bytes) -> None:
    os.ftruncate(fd, 0)
    os.lseek(fd, 0, os.SEEK_SET)
    os.write(fd, data)


if sys.platform == "linux":
    import fcntl
    import struct

    def _whole_file(kind: int) -> bytes:
        """The kernel's `struct flock`: all of the file, for nobody in particular."""
        return struct.pack("hhqqi0q", kind, os.SEEK_SET, 0, 0, 0)

    def _light(fd: int) -> None:
        # A lock for reading, as a directory can be opened for nothing else.
        fcntl.fcntl(fd, fcntl.F_OFD_SETLK, _whole_file(fcntl.F_RDLCK))

    def _is_lit(home: Path) -> bool:
        return any(map(_is_lit_at, (home, home / LOCK_FILE)))

    def _is_lit_at(path: Path) -> bool:
        try:
            fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK)  # what lies there may be a pipe
        except FileNotFoundError:
            return False
        except OSError as error:
            raise home_error(path.parent if path.name == LOCK_FILE else path, error) from error
        try:
            answer = fcntl.fcntl(fd, fcntl.F_OFD_GETLK, _whole_file(fcntl.F_WRLCK))
        except OSError:  # no such locks here, so nobody could light it
            return False
        finally:
            os.close(fd)
        kind: int = struct.unpack_from("h", answer)[0]
        return kind != fcntl.F_UNLCK

else:  # pragma: no cover - the record tells

    def _light(fd: int) -> None:
        pass

    def _is_lit(home: Path) -> bool:
        return False
