"""Lines of the connections of a mail server for tests."""

from __future__ import annotations

import trio


class HungUp(Exception):
    """The connection has ended."""


class LineStream:
    """A connection that is read by lines. A cancelled read loses nothing."""

    def __init__(self, stream: trio.abc.Stream) -> None:
        self._stream, self._data = stream, bytearray()

    async def line(self) -> bytes:
        """Read a line, without its end. Raises `HungUp`."""
        while (end := self._data.find(b"\r\n")) < 0:
            data = await self._stream.receive_some(1 << 16)
            if not data:
                raise HungUp
            self._data += data
        line = bytes(self._data[:end])
        del self._data[: end + 2]
        return line

    async def write(self, *lines: bytes | str) -> None:
        """Write lines."""
        data = b"".join((one if isinstance(one, bytes) else one.encode()) + b"\r\n" for one in lines)
        await self._stream.send_all(data)
