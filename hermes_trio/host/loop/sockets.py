"""Socket calls that differ between operating systems."""

from __future__ import annotations

import os

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
