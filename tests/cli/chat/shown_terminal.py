"""A program on a pseudo terminal that is looked at as a person does: by what its screen shows."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import subprocess
import termios
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import pyte

from tests.cli.chat.chat_terminal import PATIENCE, environment

ROWS, COLUMNS = 40, 90


class ShownTerminal:
    """A terminal emulator with a program on it."""

    def __init__(self, process: subprocess.Popen[bytes], master: int) -> None:
        self.process, self._master = process, master
        self._screen = pyte.Screen(COLUMNS, ROWS)
        self._stream = pyte.ByteStream(self._screen)
        self.sent = b""
        """Everything that the program has sent to the terminal."""

    @property
    def screen(self) -> str:
        """What is on the screen now."""
        return "\n".join(line.rstrip() for line in self._screen.display)

    def types(self, text: str) -> None:
        os.write(self._master, text.encode())

    def resizes(self, columns: int) -> None:
        self._screen.resize(ROWS, columns)
        termios.tcsetwinsize(self._master, (ROWS, columns))

    def shows(self, *texts: str, without: Sequence[str] = ()) -> str:
        """Wait until these texts are on the screen, and those are not; return the screen."""
        deadline = time.monotonic() + PATIENCE
        while not all(text in self.screen for text in texts) or any(text in self.screen for text in without):
            assert time.monotonic() < deadline, f"not shown: {texts} without {without}\n{self.screen}"
            self._read()
        return self.screen

    def leaves(self) -> int:
        """Press Ctrl-D, and return the exit code."""
        self.types("\x04")
        while self.process.poll() is None:
            self._read()
        return self.process.wait(PATIENCE)

    def _read(self) -> None:
        if select.select([self._master], [], [], 0.05)[0]:
            with suppress(OSError):  # the program has ended
                data = os.read(self._master, 65536)
                self.sent += data
                self._stream.feed(data)


@contextmanager
def shown_terminal(program: Sequence[str], home: Path, **more: str) -> Iterator[ShownTerminal]:
    """Run a program on a terminal for the block."""
    master, slave = pty.openpty()
    termios.tcsetwinsize(slave, (ROWS, COLUMNS))

    def take_terminal() -> None:
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)  # so that the program hears of its size

    with subprocess.Popen(
        program,
        env=environment(home, TERM="xterm-256color", **more),
        stdin=slave,
        stdout=slave,
        stderr=slave,
        start_new_session=True,
        preexec_fn=take_terminal,
    ) as process:
        os.close(slave)
        try:
            yield ShownTerminal(process, master)
        finally:
            process.kill()
            process.wait()
            os.close(master)
