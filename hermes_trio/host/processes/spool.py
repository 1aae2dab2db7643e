"""The output of a process: all of it in a file, its end in memory, both of bounded size.

The process writes into a pipe, and we read. If the process wrote to the file itself, nothing could keep a
flood off the disk (a limit on file sizes would apply to every file that the command makes), and a caller that
waits for new output would have to poll. Output is read as soon as it comes, so a process never waits for us,
unless the disk hangs.

A file that exceeds `LIMIT` bytes is cut to its first `HEAD` and last `KEEP` bytes, with a line between them
that tells the number of bytes left out: the beginning shows what was started, the end shows the result. So
the file can be read at any time, by any program.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from io import FileIO
from pathlib import Path

import trio

from ...base.pulse import Pulse
from ...log import Log
from ..files.private_files import make_private_dir, open_private
from ..loop.worker import Runner, finished

LIMIT = 10 << 20
HEAD = 1 << 20
KEEP = 4 << 20
TAIL = 64 << 10
CHUNK = 64 << 10

OpenFile = Callable[[Path], FileIO]
"""Opens a file for reading and writing, emptied. Raises OSError."""

log = Log(__name__)


def open_spool_file(path: Path) -> FileIO:
    """Make the file and its directory private, or empty the file. Raises OSError."""
    make_private_dir(path.parent)
    return FileIO(open_private(path, os.O_RDWR | os.O_TRUNC), "r+")


class Spool:
    """The file. Only one worker thread uses it, so the loop never waits for the disk."""

    def __init__(self, path: Path, open_file: OpenFile = open_spool_file) -> None:
        self.path = path
        self._open_file = open_file
        self._file: FileIO | None = None
        self._size = self._left_out = self._note = 0

    def open(self) -> None:
        """Open the file. Raises OSError."""
        self._file = self._open_file(self.path)

    def write(self, data: bytes) -> None:
        """Append to the file. After a write that failed nothing more is stored, and the process goes on."""
        if self._file is None:
            return
        try:
            self._put(data)
            if self._size > LIMIT:
                self._cut()
        except OSError as error:
            log.warning("process output no longer stored", spool=str(self.path), error=str(error))
            self.close()

    def close(self) -> None:
        """Close the file; later writes do nothing."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def remove(self) -> None:
        """Close and delete the file."""
        self.close()
        with suppress(OSError):
            self.path.unlink()

    def _put(self, data: bytes) -> None:
        assert self._file is not None  # noqa: S101 - checked by `write`
        view = memoryview(data)
        while view:
            written = self._file.write(view) or 0
            self._size += written
            view = view[written:]

    def _cut(self) -> None:
        """Keep the head, a note of the number of bytes left out, and the end of the file."""
        assert self._file is not None  # noqa: S101 - checked by `write`
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
    """The output of a process so far."""

    def __init__(self, stream: trio.abc.ReceiveStream, spool: Spool, runner: Runner) -> None:
        self._stream, self._spool, self._runner = stream, spool, runner
        self._tail = bytearray()
        self._in_hand = 0
        self._grown = Pulse()
        self.total = 0
        """The number of bytes received."""
        self.ended = False
        """True when no more can come: every process that could write has closed its end."""

    @property
    def path(self) -> Path:
        """The file with all of the output, or with its beginning and its end."""
        return self._spool.path

    @property
    def tail(self) -> bytes:
        """The end of the output, at most `TAIL` bytes; the file has more."""
        return bytes(self._tail[-TAIL:])

    def since(self, position: int) -> bytes:
        """Return the output after the first `position` bytes, at most the tail."""
        return self.tail[-max(0, self.total - position) :] if position < self.total else b""

    async def beyond(self, position: int) -> int:
        """Wait until more than `position` bytes have come, or no more can. Return the number received."""
        while self.total <= position and not self.ended:
            await self._grown.wait()
        return self.total

    async def pump(self) -> None:
        """Read until no more can come. One task at a time does this; after it another may continue."""
        while not self.ended:
            try:
                data = await self._stream.receive_some(CHUNK)
            except (trio.BrokenResourceError, trio.ClosedResourceError):
                data = b""
            self._in_hand = len(data)
            try:
                if data:
                    await finished(self._runner, partial(self._spool.write, bytes(data)))
            finally:  # the file gets the data even if this task is cancelled, so the tail must too
                self._take(bytes(data))

    def _take(self, data: bytes) -> None:
        self._in_hand = 0
        self._tail += data
        if len(self._tail) > 2 * TAIL:
            del self._tail[:-TAIL]
        self.total += len(data)
        self.ended = not data
        self._grown.set()

    async def settled(self) -> None:
        """Wait until everything written by now has been read; `pump` must be running. The end of the pipe is
        no sign: a process that inherited it may keep it open long after the command ended."""
        target = self.total if self.ended else self.total + self._in_hand + _unread(self._stream)
        while self.total < target and not self.ended:
            await self._grown.wait()

    async def close(self) -> None:
        """Stop reading, and wait until the file is complete and closed."""
        self.stop()
        await finished(self._runner, self._spool.close)

    def stop(self) -> None:
        """Stop reading."""
        self.ended = True
        self._grown.set()


if sys.platform == "win32":  # pragma: no cover - Trio hides the pipe's handle; the last output may come late

    def _unread(stream: trio.abc.ReceiveStream) -> int:
        return 0

else:
    import array
    import fcntl
    import termios

    def _unread(stream: trio.abc.ReceiveStream) -> int:
        """Return the number of bytes in the pipe."""
        assert isinstance(stream, trio.lowlevel.FdStream)  # noqa: S101 - the pipe of a process is one
        count = array.array("i", [0])
        fcntl.ioctl(stream.fileno(), termios.FIONREAD, count)
        return count[0]
