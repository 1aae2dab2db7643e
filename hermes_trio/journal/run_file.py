"""The journal file of a run, as its writer uses it: open, repair, lock, write, sync, close.

Everything here blocks, so it runs only on the journals' writer thread, and `sync` on one that this waits for.
Opening takes the kernel's lock, so that there is one owner among all processes, and repairs the end of the
file: a torn line is cut off and logged, a lost newline is added. A write that fails leaves no torn line: the
file is truncated to its last good byte, and the unwritten lines are written first with the next write.
"""

from __future__ import annotations

import os
from pathlib import Path

from ..base.errors import JournalBusy, JournalUnwritable
from ..host.files.file_lock import close_locked, try_lock
from ..host.files.private_files import make_private_dir, open_private, sync_dir
from ..log import Log
from .reader import Reading, read_journal

log = Log(__name__)


class RunFile:
    """The open journal file of a run."""

    def __init__(self, path: Path, session_id: str, run_id: str) -> None:
        self.session_id, self.run_id = session_id, run_id
        self.closed = False
        try:
            make_private_dir(path.parent)
            is_new = not path.exists()
            self._fd = open_private(path, os.O_RDWR | os.O_APPEND)
        except OSError as error:
            raise unwritable(self.run_id, error) from error
        try:
            if not try_lock(self._fd):
                raise JournalBusy(run_id, "another writer has it", "Close the program that writes this run.")
            self._new_in = path.parent if is_new else None
            self._size = os.fstat(self._fd).st_size
            reading = read_journal(path, session_id, run_id) if self._size else Reading()
            self._unwritten, self._unsynced = b"", False
            self._repair_tail(reading.torn)
        except OSError as error:
            os.close(self._fd)
            raise unwritable(self.run_id, error) from error
        except BaseException:
            os.close(self._fd)
            raise
        self.last_seq = reading.next_seq - 1
        self.ended = reading.terminal is not None

    def write(self, lines: bytes, *, sync: bool) -> None:
        """Append complete lines; with `sync` they are durable after the next call of that. Raises
        `JournalUnwritable`; then the next write writes them first."""
        self._unwritten += lines
        self._unsynced |= sync
        try:
            self._write_all(self._unwritten)
        except OSError as error:
            raise unwritable(self.run_id, error) from error
        self._unwritten = b""

    def sync(self) -> None:
        """Make the lines durable that are to be, if they are not. Raises `JournalUnwritable`."""
        if self.closed or not self._unsynced:
            return
        try:
            os.fsync(self._fd)
            if self._new_in is not None:
                # After the fsync of the file, which does most of the work; the other order is slower.
                sync_dir(self._new_in)
        except OSError as error:
            raise unwritable(self.run_id, error) from error
        self._new_in, self._unsynced = None, False

    def close(self) -> None:
        """Close the file, if it is open, after a last attempt to write the lines that could not be written
        before."""
        if self.closed:
            return
        try:
            self.write(b"", sync=False)
            self.sync()
        except JournalUnwritable as error:
            log.error("end of a run journal not written", error=str(error))
        finally:
            self.closed = True
            close_locked(self._fd)

    def _write_all(self, data: bytes) -> None:
        written = 0
        try:
            while written < len(data):
                written += os.write(self._fd, data[written:])
        except OSError:
            if written:
                os.ftruncate(self._fd, self._size)
            raise
        self._size += written

    def _repair_tail(self, torn: int) -> None:
        """Make sure that the next write begins a new line."""
        if torn:
            self._size -= torn
            os.ftruncate(self._fd, self._size)
            log.warning("torn line cut off", run=self.run_id, offset=self._size, bytes=torn)
        if self._size and self._last_byte() != b"\n":
            self._write_all(b"\n")  # the last record is complete and lost only its newline

    def _last_byte(self) -> bytes:
        os.lseek(self._fd, self._size - 1, os.SEEK_SET)
        return os.read(self._fd, 1)


def unwritable(run_id: str, error: OSError) -> JournalUnwritable:
    """Return the `JournalUnwritable` for an `OSError` while writing."""
    return JournalUnwritable(
        run_id,
        error.strerror or str(error),
        "Check the space on the disk and the permissions of the journal directory.",
    )
