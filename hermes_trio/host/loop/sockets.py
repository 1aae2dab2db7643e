"""Socket calls that differ between operating systems."""

from __future__ import annotations

import os
import select
from contextlib import suppress

import trio


def send_at_once(socket: trio.socket.SocketType, data: bytes) -> int:
    """Send without waiting, and return the number of bytes that the system took: 0 where sockets are no
    files. Raises `OSError` if the connection is closed."""
    if os.name != "posix":
        return 0
    try:
        return os.write(socket.fileno(), data)
    except BlockingIOError:
        return 0


async def receive_waiting(stream: trio.SocketStream, most: int) -> bytes:
    """Wait for data and return it; empty if the other side has closed. Raises `OSError`.

    The wait may last as long as a turn, and holds less memory than that of `receive_some`."""
    while os.name == "posix":
        await trio.lowlevel.wait_readable(stream.socket)
        with suppress(BlockingIOError):
            return os.read(stream.socket.fileno(), most)
    return bytes(await stream.receive_some(most))


def has_news(socket: trio.socket.SocketType) -> bool:
    """Return whether there is data to receive, or the other side has closed the connection."""
    if not hasattr(select, "poll"):
        return bool(select.select([socket], [], [], 0)[0])
    poll = select.poll()
    poll.register(socket, select.POLLIN)
    return bool(poll.poll(0))
