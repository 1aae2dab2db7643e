"""The mode of a terminal: echo, lines or single keys, which keys are signals."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def restored_terminal(fd: int) -> Iterator[None]:
    """Put the terminal behind `fd` back into its mode when the block is left, however that happens."""
    if sys.platform == "win32":  # a console is put back by the library that changes it
        yield
        return
    import termios

    before = termios.tcgetattr(fd)
    try:
        yield
    finally:
        try:
            termios.tcsetattr(fd, termios.TCSANOW, before)  # now: output stopped by Ctrl-S never drains
        except termios.error:
            return  # the terminal is gone
