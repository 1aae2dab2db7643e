"""What operating systems do differently with a socket."""

from __future__ import annotations

import os

import trio


def send_at_once(socket: trio.socket.SocketType, data: bytes) -> int:
    """How many of these bytes the system takes without anybody waiting: none where sockets are no files.
    Raises `OSError` where nobody is there to take them."""
    if os.name != "posix":
        return 0
    try:
        return os.write(socket.fileno(), data)
    except BlockingIOError:
        return 0
