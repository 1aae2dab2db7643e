"""`hermes-trio chat` on a terminal: answers grow on the screen, and the terminal is restored at the end."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from hermes_trio import __version__
from tests.cli.chat.chat_terminal import (
    PATIENCE,
    chat,
)
from tests.host.children.kinds import soon

pytestmark = pytest.mark.skipif(os.name != "posix", reason="the tests need a pseudo terminal")


def test_each_message_is_answered_once_and_ctrl_d_leaves(tmp_path: Path) -> None:
    with chat(tmp_path) as terminal:
        terminal.types("tell me a story")
        terminal.shows("You said: tell me a story\n> ")
        terminal.types("/whoami")
        terminal.shows("api user terminal-")
        terminal.types("hello")
        terminal.shows("your-model\n```\n> ")
        assert terminal.leaves() == 0
        assert terminal.screen.count("You said: tell me a story") == 1, "the answer grew in its place"
        assert terminal.screen.count("You said") == 1
        assert terminal.screen.count("I am the demo") == 1, "also with a line break at the end of a part"
        assert "Traceback" not in terminal.screen


def test_ctrl_c_stops_a_running_answer_and_leaves_an_idle_chat(tmp_path: Path) -> None:
    with chat(tmp_path) as terminal:

        def is_idle() -> bool:
            terminal.types("/status")
            return "Nothing is running here" in terminal.screen

        terminal.types("count to 100")
        terminal.shows("2\n")
        terminal.types("\x03", end="")
        terminal.shows("(stopped)\n> ")
        terminal.types("hi there you")
        terminal.shows("> ", times=3)
        # The turn ends a moment after its answer is seen.
        soon(is_idle, within=PATIENCE)
        terminal.process.send_signal(signal.SIGINT)
        assert terminal.process.wait(PATIENCE) == 0
        assert "Traceback" not in terminal.screen


@pytest.mark.parametrize("term", ["dumb", "xterm-256color"])
@pytest.mark.parametrize("how", ["hang up", "SIGHUP"])
def test_an_answer_is_shown_by_the_next_chat_if_the_terminal_is_closed(
    tmp_path: Path, how: str, term: str
) -> None:
    with chat(tmp_path, term) as terminal:
        terminal.types("count to 6")
        terminal.shows("1\n" if term == "dumb" else "writes")
        if how == "SIGHUP":
            terminal.process.send_signal(signal.SIGHUP)
        else:
            terminal.hangs_up()
        assert terminal.process.wait(PATIENCE) is not None
    assert "gateway crashed" not in (tmp_path / "logs" / "gateway.log").read_text()
    with chat(tmp_path) as terminal:
        terminal.shows("Done.\n> ")
        assert terminal.leaves() == 0


@pytest.mark.parametrize("closed", ["<&-", ">&-"])
def test_a_closed_standard_stream_is_an_error(tmp_path: Path, closed: str) -> None:
    command = f"{shlex.join([sys.executable, '-m', 'hermes_trio', 'chat'])} {closed}"
    environ = {**os.environ, "HERMES_HOME": str(tmp_path)}
    done = subprocess.run(
        ["sh", "-c", command], env=environ, stderr=subprocess.PIPE, text=True, timeout=PATIENCE, check=False
    )
    assert done.returncode == 1
    assert done.stderr == (
        "error: There is no terminal here: standard input or standard output is closed. "
        "Start it in a terminal, or send a question through a pipe.\n"
    )


@pytest.mark.parametrize("how", ["kill", "terminate"])
def test_an_answer_that_a_signal_cut_is_resumed_by_the_next_chat(tmp_path: Path, how: str) -> None:
    with chat(tmp_path) as terminal:
        terminal.types("count to 4")
        terminal.shows("2\n")
        getattr(terminal.process, how)()
        terminal.process.wait(PATIENCE)
    with chat(tmp_path) as terminal:
        terminal.shows("Done.\n> ")
        assert "> count to 4\n" in terminal.screen, "the end of the session is shown"
        assert terminal.leaves() == 0
    with chat(tmp_path) as terminal:
        assert terminal.leaves() == 0
        assert terminal.screen.count("Done.") == 1, "the message is not answered again"


@pytest.mark.parametrize("by", ["/restart", "a signal"])
def test_a_restart_continues_in_the_same_terminal(tmp_path: Path, by: str) -> None:
    with chat(tmp_path) as terminal:
        terminal.types("count to 4")
        terminal.shows("2\n")
        if by == "/restart":
            terminal.types(by)
        else:  # the signal of `hermes-trio restart`
            terminal.process.send_signal(signal.SIGUSR1)
        terminal.shows(f"hermes-trio {__version__}", times=2)
        terminal.shows("Done.\n> ")
        terminal.types("and now?")
        terminal.shows("You said: and now?\n> ")
        assert terminal.leaves() == 0
        assert "Traceback" not in terminal.screen


@pytest.mark.parametrize("term", ["dumb", "xterm-256color"])
@pytest.mark.parametrize("way", ["Ctrl-D", "Ctrl-C", "SIGTERM", "SIGHUP", "SIGINT"])
def test_the_terminal_is_restored_whatever_ends_the_chat(tmp_path: Path, way: str, term: str) -> None:
    with chat(tmp_path, term) as terminal:
        soon(lambda: not terminal.mode_is_restored, within=PATIENCE)
        if way.startswith("Ctrl"):
            terminal.types("\x04" if way == "Ctrl-D" else "\x03", end="")
        else:
            terminal.process.send_signal(getattr(signal, way))
        assert terminal.process.wait(PATIENCE) == 0
        assert terminal.mode_is_restored
        assert term == "dumb" or terminal.screen.count("\x1b[?2004l") == 1, "bracketed paste is off again"
        assert "Traceback" not in terminal.screen


def test_a_gateway_that_cannot_start_is_an_error_and_the_terminal_is_as_before(tmp_path: Path) -> None:
    (tmp_path / "gateway.db").mkdir()
    with chat(tmp_path, "xterm-256color", starts=False) as terminal:
        assert terminal.process.wait(PATIENCE) == 78
        assert terminal.mode_is_restored
        terminal.shows("gateway.db")


def test_an_answer_that_ctrl_d_cut_is_not_resumed_by_the_next_chat(tmp_path: Path) -> None:
    with chat(tmp_path) as terminal:
        terminal.types("count to 50")
        terminal.shows("2\n")
        assert terminal.leaves() == 0
    with chat(tmp_path) as terminal:
        terminal.types("/status")
        terminal.shows("Nothing is running here")
        assert "3\n" not in terminal.screen
