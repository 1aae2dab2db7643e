"""One gateway per home: the process that holds the lock of the home directory is the gateway.

The kernel holds the lock (`try_lock`), so it ends with its holder, in whatever way that dies. It is taken
twice:

- On the home *directory* itself. No program removes a home directory in passing, so this lock decides.
- On `gateway.lock` in it, for other programs and for file systems on which a directory cannot be locked.
  Other programs have a file of this name too, and some remove it as stale: with a lock on this file alone,
  two gateways could lock two files of the same name. A file that was removed is put back (`restore_file`).

Other processes ask whether a gateway runs, and must never hinder one that starts. A lock can be tried only by
taking it, and that would make a start at the same moment fail. So only a starting gateway touches the lock,
and the holder shows two things to look at:

- A *lamp*, on Linux: a second lock of another kind (an open-file-description lock), which the kernel lets
  other processes query (`F_OFD_GETLK`) without taking it, and from any container. Only the holder of the lock
  sets it, so setting it never fails. `/proc/locks` was rejected: it hides the locks of another pid namespace,
  and its device numbers are not those of `stat` on btrfs and overlays. Plain record locks were rejected: they
  are lost as soon as any reader in the process closes the file.
- A *record* in the file: the identity of the process, for people and for systems without a lamp. It counts
  only while that very process lives, so a stale record means nothing.

Both kinds of lock belong to the open file. A forked child that has the descriptor too would keep them. It is
close-on-exec, and all our children exec; but a program around the gateway may fork, so the holder releases
both before it closes the file. For the same reason a gateway can hand its home to a successor: it sends the
open files, and closes its own without releasing them (`hand_on`). In no moment the home is nobody's.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import msgspec

from ...base.errors import HomeBusy, home_error
from ..files.file_lock import close_locked, try_lock
from ..files.json_files import UnreadableFile, read_small
from ..files.private_files import make_private_dir, open_private
from ..processes.process_identity import ProcessId, is_alive, own
from .state_file import read_status

LOCK_FILE = "gateway.lock"


class HomeLock:
    """The lock of a home that this process holds. Made by `locked_home` and `handed_home`."""

    def __init__(self, home: Path, process: ProcessId, directory: int | None, files: list[int]) -> None:
        self.process = process
        self._home, self._directory = home, directory
        self._fds = files
        """The lock files that were removed, then the current one."""

    def restore_file(self) -> bool:
        """Put `gateway.lock` back if it was removed or replaced. Return False if it is in place, or another
        program has locked its replacement. Raises OSError; the home stays locked in any case."""
        path = self._home / LOCK_FILE
        with suppress(FileNotFoundError):
            if os.path.samestat(path.stat(), os.fstat(self._fds[-1])):
                return False
        fd = _take_lock_file(path, self.process)
        if fd is None:
            return False
        self._fds.append(fd)
        return True

    @property
    def is_held(self) -> bool:
        """True until the lock is handed on."""
        return bool(self._fds)

    @property
    def descriptors(self) -> list[int]:
        """The open files. A process to which they are sent holds the lock too, and goes on with
        `handed_home`."""
        return [*([] if self._directory is None else [self._directory]), *self._fds]

    def hand_on(self) -> None:
        """Leave the lock to the process that was sent its files: close them without releasing it."""
        descriptors, self._directory, self._fds = self.descriptors, None, []
        for fd in descriptors:
            os.close(fd)

    def take_back(self) -> None:
        """Hold the lock again after a process that was sent its files has ended, which may have released it.
        Raises `HomeBusy` if a third process has taken it in between."""
        try:
            if self._directory is not None and not _take_directory_lock(self._directory):
                raise _busy_error(self._home)
            for fd in self._fds:
                if not try_lock(fd):
                    raise _busy_error(self._home)
                with suppress(OSError):  # a file system without such locks; the record serves as well
                    _set_lamp(fd)
            _write_record(self._fds[-1], msgspec.json.encode(self.process))
        except OSError as error:
            raise home_error(self._home, error) from error

    def _close(self) -> None:
        if not self._fds:
            return
        with suppress(OSError):
            _write_record(self._fds[-1], b"")
        for fd in reversed(self.descriptors):
            _release(fd)


@contextmanager
def locked_home(home: Path) -> Iterator[HomeLock]:
    """Make `home` if it is missing, and be its only gateway during the block.

    Raises `HomeBusy` while another gateway is, another `HomeError` if the directory cannot be used.
    """
    me = own()
    with ExitStack() as unless_locked:
        try:
            make_private_dir(home)
            directory = _open_directory(home)
            if directory is not None:
                unless_locked.callback(_release, directory)
                if not _take_directory_lock(directory):
                    raise _busy_error(home)
            fd = _take_lock_file(home / LOCK_FILE, me)
        except OSError as error:
            raise home_error(home, error) from error
        if fd is None:
            raise _busy_error(home)
        unless_locked.pop_all()
    lock = HomeLock(home, me, directory, [fd])
    try:
        yield lock
    finally:
        lock._close()


@contextmanager
def handed_home(home: Path, descriptors: Sequence[int]) -> Iterator[HomeLock]:
    """Be the only gateway of `home` during the block, with the open files of the lock of the process that was
    it before. Raises `HomeError`."""
    directories = [fd for fd in descriptors if stat.S_ISDIR(os.fstat(fd).st_mode)]
    files = [fd for fd in descriptors if fd not in directories]
    lock = HomeLock(home, own(), next(iter(directories), None), files)
    try:
        lock.take_back()
        yield lock
    finally:
        lock._close()


def is_locked(home: Path) -> bool:
    """Return True if a gateway has this home. Takes no lock, so it never makes a start fail."""
    return _has_lamp(home) or recorded_holder(home) is not None


def refuse_if_busy(home: Path) -> None:
    """Raise `HomeBusy` if a gateway has this home. For a caller that is about to change files of a gateway;
    only the lock gives certainty, since a gateway may start a moment later."""
    if is_locked(home):
        raise _busy_error(home)


def recorded_holder(home: Path) -> ProcessId | None:
    """Return the gateway that the record names, if that very process lives. Where the record is lost, use the
    state file, provided that a gateway certainly holds the home."""
    process = None
    with suppress(OSError, UnreadableFile, msgspec.MsgspecError):
        data, _ = read_small(home / LOCK_FILE)
        process = msgspec.json.decode(data, type=ProcessId)
    if process is not None and is_alive(process):
        return process
    status = read_status(home) if _has_lamp(home) else None
    return status.process if status is not None and is_alive(status.process) else None


def _busy_error(home: Path) -> HomeBusy:
    holder = recorded_holder(home)
    return HomeBusy(home, holder.pid if holder else None)


def _open_directory(home: Path) -> int | None:
    """Open the home directory as a file; None on systems that cannot."""
    if not hasattr(os, "O_DIRECTORY"):
        return None
    return os.open(home, os.O_RDONLY | os.O_DIRECTORY)


def _take_directory_lock(fd: int) -> bool:
    """Lock the home directory. Return False if another process has locked it. Some network file systems
    cannot lock a directory: there the lock file alone decides."""
    with suppress(OSError):
        if not try_lock(fd):
            return False
        _set_lamp(fd)
    return True


def _take_lock_file(path: Path, me: ProcessId) -> int | None:
    """Open and lock the lock file, and write the record of this process into it. Return None if another
    process has locked it."""
    fd = open_private(path, os.O_RDWR)
    with ExitStack() as unless_taken:
        unless_taken.callback(os.close, fd)
        if not try_lock(fd):
            return None
        with suppress(OSError):  # a file system without such locks; the record serves as well
            _set_lamp(fd)
        _write_record(fd, msgspec.json.encode(me))
        unless_taken.pop_all()
    return fd


def _release(fd: int) -> None:
    """Release the locks of a file, and close it."""
    with suppress(OSError):  # a file system without such locks
        _clear_lamp(fd)
    close_locked(fd)


def _write_record(fd: int, data: bytes) -> None:
    os.ftruncate(fd, 0)
    os.lseek(fd, 0, os.SEEK_SET)
    os.write(fd, data)


if sys.platform == "linux":
    import fcntl
    import struct

    def _whole_file(kind: int) -> bytes:
        """Return the kernel's `struct flock` for the whole file and no particular process."""
        return struct.pack("hhqqi0q", kind, os.SEEK_SET, 0, 0, 0)

    def _set_lamp(fd: int) -> None:
        # A read lock, since a directory can only be opened for reading.
        fcntl.fcntl(fd, fcntl.F_OFD_SETLK, _whole_file(fcntl.F_RDLCK))

    def _clear_lamp(fd: int) -> None:
        fcntl.fcntl(fd, fcntl.F_OFD_SETLK, _whole_file(fcntl.F_UNLCK))

    def _has_lamp(home: Path) -> bool:
        return any(map(_has_lamp_at, (home, home / LOCK_FILE)))

    def _has_lamp_at(path: Path) -> bool:
        try:
            fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK)  # the path may hold a pipe
        except FileNotFoundError:
            return False
        except OSError as error:
            raise home_error(path.parent if path.name == LOCK_FILE else path, error) from error
        try:
            answer = fcntl.fcntl(fd, fcntl.F_OFD_GETLK, _whole_file(fcntl.F_WRLCK))
        except OSError:  # no such locks here, so no gateway could set one
            return False
        finally:
            os.close(fd)
        kind: int = struct.unpack_from("h", answer)[0]
        return kind != fcntl.F_UNLCK

else:  # pragma: no cover - the record serves

    def _set_lamp(fd: int) -> None:
        pass

    def _clear_lamp(fd: int) -> None:
        pass

    def _has_lamp(home: Path) -> bool:
        return False
