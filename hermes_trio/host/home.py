"""One gateway per home: whoever holds `gateway.lock` is the gateway.

The lock is the kernel's (`try_lock`), so it ends with its holder however that dies, and the file is
never unlinked: two gateways could lock two files of one name.

Others want to know whether a gateway runs, and must never hinder one that starts. A lock can be tried
only by taking it, and whoever tries makes a start fail that falls into the same moment. So nobody but
a starting gateway touches the lock; the holder shows two things to look at:

- A *lamp*, on Linux: a second lock of another kind (an open-file-description lock), which the kernel
  lets others ask about (`F_OFD_GETLK`) without taking it, and from any container. Only who holds the
  lock lights it, so nobody is ever refused it. `/proc/locks` was rejected: it hides what another pid
  namespace holds, and its device numbers are not those of `stat` on btrfs and overlays. Plain record
  locks were rejected: they are lost as soon as any reader in the process closes the file.
- A *record* in the file: the process, for people, and where there is no lamp for us. It counts only
  while that very process lives, so a stale one means nothing.

Both locks belong to the open file. A child that is forked and keeps the descriptor would hold them
on; it is close-on-exec, and all our children are exec'ed.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

from ..errors import HomeBusy, home_error
from .files import make_private_dir, open_private
from .lock import try_lock
from .process import ProcessId, is_alive, own
from .small_files import Unreadable, read_small

LOCK_FILE = "gateway.lock"


@contextmanager
def locked_home(home: Path) -> Iterator[ProcessId]:
    """Make `home` if need be, and be its only gateway for as long as the block lasts.

    Raises `HomeBusy` when another one is, another `HomeError` when the directory cannot serve.
    """
    me = own()
    try:
        make_private_dir(home)
        fd = open_private(home / LOCK_FILE, os.O_RDWR)
    except OSError as error:
        raise home_error(home, error) from error
    try:
        try:
            if not try_lock(fd):
                raise _busy(home)
            with suppress(OSError):  # a file system that has no such locks; the record tells as well
                _light(fd)
            _record(fd, msgspec.json.encode(me))
        except OSError as error:
            raise home_error(home, error) from error
        try:
            yield me
        finally:
            with suppress(OSError):
                _record(fd, b"")
    finally:
        os.close(fd)


def is_locked(home: Path) -> bool:
    """Whether a gateway has this home. Looks, and takes nothing: no start ever fails by it."""
    try:
        fd = os.open(home / LOCK_FILE, os.O_RDONLY)
    except FileNotFoundError:
        return False
    except OSError as error:
        raise home_error(home, error) from error
    try:
        lit = _is_lit(fd)
    finally:
        os.close(fd)
    return lit or recorded_holder(home) is not None


def refuse_if_busy(home: Path) -> None:
    """Raise `HomeBusy` if a gateway has this home: for who is about to touch files there that are its own.
    The lock alone decides, a moment later."""
    if is_locked(home):
        raise _busy(home)


def recorded_holder(home: Path) -> ProcessId | None:
    """The gateway of this home by its own record, if that very process lives."""
    try:
        data, _ = read_small(home / LOCK_FILE)
        process = msgspec.json.decode(data, type=ProcessId)
    except (OSError, Unreadable, msgspec.MsgspecError):
        return None
    return process if is_alive(process) else None


def _busy(home: Path) -> HomeBusy:
    holder = recorded_holder(home)
    return HomeBusy(home, holder.pid if holder else None)


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
        fcntl.fcntl(fd, fcntl.F_OFD_SETLK, _whole_file(fcntl.F_WRLCK))

    def _is_lit(fd: int) -> bool:
        try:
            answer = fcntl.fcntl(fd, fcntl.F_OFD_GETLK, _whole_file(fcntl.F_WRLCK))
        except OSError:  # no such locks here, so nobody could light it
            return False
        kind: int = struct.unpack_from("h", answer)[0]
        return kind != fcntl.F_UNLCK

else:  # pragma: no cover - the record tells

    def _light(fd: int) -> None:
        pass

    def _is_lit(fd: int) -> bool:
        return False
