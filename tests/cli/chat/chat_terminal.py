"""`hermes-trio chat` on a pseudo terminal, for the tests of its chat."""

from __future__ import annotations

import json
import os
import pty
import select
import sqlite3
import subprocess
import sys
import termios
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from tests.host.children.kinds import soon

PATIENCE = 40.0
CHAT = [sys.executable, "-m", "hermes_trio", "chat"]
PASTE = "\x1b[200~{}\x1b[201~"


class Terminal:
    """A chat that runs on a terminal, and everything its screen has shown so far."""

    def __init__(self, process: subprocess.Popen[bytes], master: int, slave: int) -> None:
        self.process, self._master, self._slave = process, master, slave
        self._mode = termios.tcgetattr(slave)
        self._seen, self._closing = b"", threading.Event()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        # A blocked read would keep the terminal open after it was closed here.
        with suppress(OSError):
            while not self._closing.is_set():
                if select.select([self._master], [], [], 0.02)[0]:
                    self._seen += os.read(self._master, 4096)

    @property
    def screen(self) -> str:
        return self._seen.decode(errors="replace").replace("\r\n", "\n")

    def types(self, text: str, end: str = "\r") -> None:
        data = (text + end).encode()
        while data:
            data = data[os.write(self._master, data[:1000]) :]

    def shows(self, text: str, times: int = 1) -> None:
        soon(lambda: self.screen.count(text) >= times, within=PATIENCE)

    def hangs_up(self) -> None:
        """Close the window."""
        if not self._closing.is_set():
            self._closing.set()
            self._reader.join()
            os.close(self._slave)
            os.close(self._master)

    def leaves(self) -> int:
        """Press Ctrl-D, and return the exit code."""
        self.types("\x04", end="")
        return self.process.wait(PATIENCE)

    @property
    def mode_is_restored(self) -> bool:
        """Return whether the mode of the terminal is the one before the chat."""
        return termios.tcgetattr(self._slave) == self._mode


def environment(home: Path, **more: str) -> dict[str, str]:
    environ = {name: value for name, value in os.environ.items() if not name.endswith("_API_KEY")}
    return {**environ, "HERMES_HOME": str(home), "PROMPT_TOOLKIT_NO_CPR": "1", **more}


def configure(home: Path) -> None:
    (home / "config.yaml").write_text("model: {provider: demo}\nweb: {port: 0}\n", "utf-8")


@contextmanager
def chat(home: Path, term: str = "dumb", *, starts: bool = True) -> Iterator[Terminal]:
    """Start a chat on a terminal, and yield it when it shows its prompt. A dumb terminal shows plain text."""
    configure(home)
    master, slave = pty.openpty()
    termios.tcsetwinsize(slave, (24, 80))
    with subprocess.Popen(
        CHAT,
        env=environment(home, TERM=term),
        stdin=slave,
        stdout=slave,
        stderr=slave,
        process_group=0,
    ) as process:
        terminal = Terminal(process, master, slave)
        try:
            if starts:
                terminal.shows("\n> " if term == "dumb" else "ready")
            yield terminal
        finally:
            process.kill()
            process.wait()
            terminal.hangs_up()


def reading(home: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"{(home / 'gateway.db').as_uri()}?mode=ro", uri=True)


def asked(home: Path) -> list[str]:
    """Return the texts of the stored messages; none while there is no database."""
    with suppress(sqlite3.OperationalError), closing(reading(home)) as db:
        return [
            json.loads(event)["text"] for (event,) in db.execute("SELECT event FROM inbox ORDER BY inbox_id")
        ]
    return []


def has_heard(home: Path, messages: int) -> bool:
    return len(asked(home)) == messages


def inbox_states(home: Path) -> list[str]:
    """Return the state of each stored message."""
    with closing(reading(home)) as db:
        return [state for (state,) in db.execute("SELECT state FROM inbox ORDER BY inbox_id")]
