"""The mode of a terminal: echo, lines or single keys, which keys are signals."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def restored_terminal(fd: int) -> Iterator[None]:
    """Restore the mode of the terminal `fd` when the block is left, in whatever way."""
    if sys.platform == "win32":  # the library that changes a console restores it
        yield
        return
    import termios

    before = termios.tcgetattr(fd)
    try:
        yield
    finally:
        try:
            termios.tcsetattr(fd, termios.TCSANOW, before)  # at once: stopped output never drains
        except termios.error:
            return  # the terminal is gone
