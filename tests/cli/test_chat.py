"""`hermes-trio chat`: the terminal as a platform. What is typed is said, and answers grow on the screen."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from hermes_trio import __version__
from tests.host.children.kinds import soon

PATIENCE = 40.0


class Terminal:
    """A chat that is running, and what has been on its screen so far."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        self._seen, self._dark = b"", False
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        while not self._dark and (data := self.process.stdout.read1(4096)):  # type: ignore[attr-defined]
            self._seen += data
        self.process.stdout.close()

    @property
    def screen(self) -> str:
        return self._seen.decode()

    def types(self, text: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{text}\n".encode())
        self.process.stdin.flush()

    def shows(self, text: str, times: int = 1) -> None:
        soon(lambda: self.screen.count(text) >= times, within=PATIENCE)

    def goes_dark(self) -> None:
        """Nobody reads any more from the next word on."""
        self._dark = True

    def leaves(self) -> int:
        assert self.process.stdin is not None
        self.process.stdin.close()
        code = self.process.wait(PATIENCE)
        self._reader.join(PATIENCE)
        return code


@contextmanager
def chat(home: Path) -> Iterator[Terminal]:
    environ = {name: value for name, value in os.environ.items() if not name.endswith("_API_KEY")}
    environ["HERMES_HOME"] = str(home)
    program = [sys.executable, "-m", "hermes_trio", "chat"]
    (home / "config.yaml").write_text("model: {provider: demo}\n", "utf-8")
    pipe = subprocess.PIPE
    with subprocess.Popen(program, env=environ, stdin=pipe, stdout=pipe, stderr=subprocess.STDOUT) as process:
        terminal = Terminal(process)
        try:
            terminal.shows("> ")
            yield terminal
        finally:
            process.kill()


def test_what_is_said_is_answered_once_and_leaving_is_clean(tmp_path: Path) -> None:
    with chat(tmp_path) as terminal:
        terminal.types("tell me a story")
        terminal.shows("You said: tell me a story\n> ")
        terminal.types("/whoami")
        terminal.shows("console user me")
        terminal.types("hello")
        terminal.shows("your-model\n```\n> ")
        assert terminal.leaves() == 0
        assert terminal.screen.count("You said: tell me a story") == 1, "it grew in its place"
        assert terminal.screen.count("You said") == 1
        assert terminal.screen.count("I am the demo") == 1, "also where it had said a line break more"
        assert "Traceback" not in terminal.screen


@pytest.mark.skipif(os.name != "posix", reason="no signal like Ctrl-C can be sent here")
def test_ctrl_c_stops_the_answer_and_with_nothing_to_stop_it_leaves(tmp_path: Path) -> None:
    with chat(tmp_path) as terminal:

        def is_idle() -> bool:
            terminal.types("/status")
            return "Nothing is running here" in terminal.screen

        terminal.types("count to 100")
        terminal.shows("2\n")
        terminal.process.send_signal(signal.SIGINT)
        terminal.shows("(interrupted)\n> ")
        terminal.types("hi there you")
        terminal.shows("> ", times=3)
        # The turn ends a moment after its answer is seen.
        soon(is_idle, within=PATIENCE)
        terminal.process.send_signal(signal.SIGINT)
        assert terminal.process.wait(PATIENCE) == 0
        assert "Traceback" not in terminal.screen


def test_when_nobody_reads_any_more_it_leaves_and_shows_the_answer_the_next_time(tmp_path: Path) -> None:
    with chat(tmp_path) as terminal:
        terminal.types("count to 3")
        terminal.shows("1\n")
        terminal.goes_dark()
        assert terminal.process.wait(PATIENCE) is not None
    with chat(tmp_path) as terminal:
        terminal.shows("Done.\n> ")
        assert terminal.leaves() == 0


@pytest.mark.skipif(os.name != "posix", reason="a shell says it so")
@pytest.mark.parametrize("closed", ["<&-", ">&-"])
def test_without_a_terminal_it_says_so(tmp_path: Path, closed: str) -> None:
    command = f"{shlex.join([sys.executable, '-m', 'hermes_trio', 'chat'])} {closed}"
    environ = {**os.environ, "HERMES_HOME": str(tmp_path)}
    done = subprocess.run(
        ["sh", "-c", command], env=environ, stderr=subprocess.PIPE, text=True, timeout=PATIENCE, check=False
    )
    assert done.returncode == 1
    assert done.stderr == "error: There is no terminal here: standard input or standard output is closed.\n"


@pytest.mark.parametrize("how", ["kill", "terminate"])
def test_what_was_ended_in_the_middle_is_taken_up_by_the_next_one(tmp_path: Path, how: str) -> None:
    with chat(tmp_path) as terminal:
        terminal.types("count to 4")
        terminal.shows("2\n")
        getattr(terminal.process, how)()
        terminal.process.wait(PATIENCE)
    with chat(tmp_path) as terminal:
        terminal.shows("Done.\n> ")
        if how == "kill":
            assert "> \n1\n2\n" in terminal.screen, "what it had said stands below the prompt"
        assert terminal.leaves() == 0
    with chat(tmp_path) as terminal:
        assert terminal.leaves() == 0
        assert "Done." not in terminal.screen, "it is not answered again"


@pytest.mark.skipif(os.name != "posix", reason="there is no such signal here")
@pytest.mark.parametrize("by", ["/restart", "a signal"])
def test_a_restart_goes_on_in_the_same_terminal(tmp_path: Path, by: str) -> None:
    with chat(tmp_path) as terminal:
        terminal.types("count to 4")
        terminal.shows("2\n")
        if by == "/restart":
            terminal.types(by)
        else:  # which `hermes-trio restart` sends
            terminal.process.send_signal(signal.SIGUSR1)
        terminal.shows(f"hermes-trio {__version__}", times=2)
        terminal.shows("Done.\n> ")
        terminal.types("and now?")
        terminal.shows("You said: and now?\n> ")
        assert terminal.leaves() == 0
        assert ("Restarted" in terminal.screen) is (by == "/restart"), "who asked for it is told"
        assert "Traceback" not in terminal.screen
