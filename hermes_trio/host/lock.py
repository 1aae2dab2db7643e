"""Locks that the kernel holds and that die with their holder.

A lock here is an open file: there is no pid to compare and nothing to clean up after a kill. The
file itself is never unlinked, or two holders could lock two files of one name.
"""

from __future__ import annotations

import sys

# Windows locks bytes, and a locked byte cannot be read by others; so the byte is far behind any data.
_FAR_BYTE = 1 << 40


if sys.platform == "win32":  # pragma: no cover - walked by the tests through a fake msvcrt
    import msvcrt
    import os

    def try_lock(fd: int) -> bool:
        """Take the lock of this open file if nobody has it. It is held until `fd` is closed."""
        position = os.lseek(fd, 0, os.SEEK_CUR)
        try:
            os.lseek(fd, _FAR_BYTE, os.SEEK_SET)
            msvcrt.locking(fd, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        finally:
            os.lseek(fd, position, os.SEEK_SET)
        return True

else:
    import fcntl

    def try_lock(fd: int) -> bool:
        """Take the lock of this open file if nobody has it. It is held until `fd` is closed."""
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True
