"""The output of a process: in a file and, its end, in memory, and neither grows without bound.

The process writes into a pipe, and we read. If it wrote to the file itself, nobody could keep a flood
off the disk (a limit on file sizes would hit every file that the command makes), and whoever waits for a
word in the output would have to look again and again. What comes is read at once, always, so a process
never waits for us, except for a disk that hangs.

A file of `LIMIT` bytes is cut down to its first `HEAD` and last `KEEP`, with a line between them that
tells how much is missing: the beginning tells what was started, the end what came of it. So the file can
be read at any time, with anything.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import BinaryIO

import trio

from ...log import Log
from ..files.private_files import make_private_dir, open_private
from ..loop.worker import Runner, finished

LIMIT = 10 << 20
HEAD = 1 << 20
KEEP = 4 << 20
TAIL = 64 << 10
CHUNK = 64 << 10

log = Log(__name__)


class Spool:
    """The file. It is used by one thread, which waits for the disk in place of the loop."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file: BinaryIO | None = None
        self._size = self._left_out = self._note = 0

    def open(self) -> None:
        """Make the file, or empty it. Raises OSError."""
        make_private_dir(self.path.parent)
        self._file = os.fdopen(open_private(self.path, os.O_RDWR | os.O_TRUNC), "r+b", buffering=0)

    def write(self, data: bytes) -> None:
        """Add to the file. When that fails once, the file ends there: the process matters more."""
        if self._file is None:
            return
        try:
            self._put(data)
            if self._size > LIMIT:
                self._cut()
        except OSError as error:
            log.warning("output of a process is no longer stored", spool=str(self.path), error=str(error))
            self.close()

    def close(self) -> None:
        """Nothing is written any more."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def remove(self) -> None:
        """There is nothing to keep."""
        self.close()
        with suppress(OSError):
            self.path.unlink()

    def _put(self, data: bytes) -> None:
        assert self._file is not None  # noqa: S101 - `write` looked
        view = memoryview(data)
        while view:
            written = self._file.write(view) or 0
            self._size += written
            view = view[written:]

    def _cut(self) -> None:
        """Move the end of the file forward, behind the head and the note."""
        assert self._file is not None  # noqa: S101 - `write` looked
        source = self._size - KEEP
        self._left_out += source - HEAD - self._note
        note = b"\n[... %d bytes are left out here ...]\n" % self._left_out
        self._size, self._note = HEAD, len(note)
        block = note
        while block:
            self._file.seek(self._size)
            self._put(block)
            self._file.seek(source)
            block = self._file.read(CHUNK) or b""
            source += len(block)
        self._file.truncate(self._size)
        self._file.seek(self._size)


class Output:
    """What a process has written so far."""

    def __init__(self, stream: trio.abc.ReceiveStream, spool: Spool, runner: Runner) -> None:
        self._stream, self._spool, self._runner = stream, spool, runner
        self._tail = bytearray()
        self._in_hand = 0
        self._grown = trio.lowlevel.ParkingLot()
        self.total = 0
        """How many bytes there were."""
        self.ended = False
        """No more can come: every process that could write has closed its end."""

    @property
    def path(self) -> Path:
        """The file that has all of it, or its beginning and its end."""
        return self._spool.path

    @property
    def tail(self) -> bytes:
        """The end of it, at most `TAIL` bytes; the spool has the rest."""
        return bytes(self._tail[-TAIL:])

    def since(self, position: int) -> bytes:
        """What came behind the first `position` bytes, if it is not longer than the tail."""
        return self.tail[-max(0, self.total - position) :] if position < self.total else b""

    async def beyond(self, position: int) -> int:
        """Wait until more than `position` bytes have come, or no more can; returns how many have."""
        while self.total <= position and not self.ended:
            await self._grown.park()
        return self.total

    async def pump(self) -> None:
        """Read until no more can come. One task at a time does this; another may go on behind it."""
        while not self.ended:
            try:
                data = await self._stream.receive_some(CHUNK)
            except (trio.BrokenResourceError, trio.ClosedResourceError):
                data = b""
            self._in_hand = len(data)
            try:
                if data:
                    await finished(self._runner, partial(self._spool.write, bytes(data)))
            finally:  # cancelled or not, the file gets it; so the tail does too
                self._take(bytes(data))

    def _take(self, data: bytes) -> None:
        self._in_hand = 0
        self._tail += data
        if len(self._tail) > 2 * TAIL:
            del self._tail[:-TAIL]
        self.total += len(data)
        self.ended = not data
        self._grown.unpark_all()

    async def settled(self) -> None:
        """Wait until what is written by now has been read; `pump` must be running. Whoever inherited the
        pipe may hold it open long after the process, so its end is no sign."""
        target = self.total if self.ended else self.total + self._in_hand + _unread(self._stream)
        while self.total < target and not self.ended:
            await self._grown.park()

    async def close(self) -> None:
        """Read no more, and have the file complete and closed when this returns."""
        self.stop()
        await finished(self._runner, self._spool.close)

    def stop(self) -> None:
        """Read no more."""
        self.ended = True
        self._grown.unpark_all()


if sys.platform == "win32":  # pragma: no cover - Trio hides the pipe's handle; last words may come late

    def _unread(stream: trio.abc.ReceiveStream) -> int:
        return 0

else:
    import array
    import fcntl
    import termios

    def _unread(stream: trio.abc.ReceiveStream) -> int:
        """How many bytes are in the pipe."""
        assert isinstance(stream, trio.lowlevel.FdStream)  # noqa: S101 - what a process writes to is one
        count = array.array("i", [0])
        fcntl.ioctl(stream.fileno(), termios.FIONREAD, count)
        return count[0]
