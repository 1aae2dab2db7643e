"""`hermes-trio chat`: the terminal as a platform. What is typed or pasted is said, answers grow on the
screen, and a question from a pipe is answered."""

from __future__ import annotations

import json
import os
import pty
import random
import select
import shlex
import signal
import sqlite3
import subprocess
import sys
import termios
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from functools import partial
from pathlib import Path

import pytest

from hermes_trio import __version__
from tests.host.children.kinds import soon

PATIENCE = 40.0
CHAT = [sys.executable, "-m", "hermes_trio", "chat"]
PASTE = "\x1b[200~{}\x1b[201~"

pytestmark = pytest.mark.skipif(os.name != "posix", reason="the stories play on a pseudo terminal")


class Terminal:
    """A chat that is running on a terminal, and what has been on its screen so far."""

    def __init__(self, process: subprocess.Popen[bytes], master: int, slave: int) -> None:
        self.process, self._master, self._slave = process, master, slave
        self._mode = termios.tcgetattr(slave)
        self._seen, self._closing = b"", threading.Event()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        # Who waits in a read keeps a terminal open that is closed meanwhile.
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
        """The window is closed."""
        if not self._closing.is_set():
            self._closing.set()
            self._reader.join()
            os.close(self._slave)
            os.close(self._master)

    def leaves(self) -> int:
        """Ctrl-D."""
        self.types("\x04", end="")
        return self.process.wait(PATIENCE)

    @property
    def is_as_before(self) -> bool:
        """Whether its mode is the one in which the chat found it."""
        return termios.tcgetattr(self._slave) == self._mode


def environment(home: Path, **more: str) -> dict[str, str]:
    environ = {name: value for name, value in os.environ.items() if not name.endswith("_API_KEY")}
    return {**environ, "HERMES_HOME": str(home), "PROMPT_TOOLKIT_NO_CPR": "1", **more}


def configure(home: Path) -> None:
    (home / "config.yaml").write_text("model: {provider: demo}\n", "utf-8")


@contextmanager
def chat(home: Path, term: str = "dumb") -> Iterator[Terminal]:
    """A chat on a terminal. A dumb one shows what is written as it is written."""
    configure(home)
    master, slave = pty.openpty()
    termios.tcsetwinsize(slave, (24, 80))
    with subprocess.Popen(
        CHAT, env=environment(home, TERM=term), stdin=slave, stdout=slave, stderr=slave, process_group=0
    ) as process:
        terminal = Terminal(process, master, slave)
        try:
            terminal.shows("> " if term == "dumb" else "\x1b[?2004h")
            yield terminal
        finally:
            process.kill()
            process.wait()
            terminal.hangs_up()


def reading(home: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"{(home / 'gateway.db').as_uri()}?mode=ro", uri=True)


def asked(home: Path) -> list[str]:
    """What was said, as it is stored; nothing as long as there is no database."""
    with suppress(sqlite3.OperationalError), closing(reading(home)) as db:
        return [
            json.loads(event)["text"] for (event,) in db.execute("SELECT event FROM inbox ORDER BY inbox_id")
        ]
    return []


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


def test_ctrl_c_stops_the_answer_and_with_nothing_to_stop_it_leaves(tmp_path: Path) -> None:
    with chat(tmp_path) as terminal:

        def is_idle() -> bool:
            terminal.types("/status")
            return "Nothing is running here" in terminal.screen

        terminal.types("count to 100")
        terminal.shows("2\n")
        terminal.types("\x03", end="")
        terminal.shows("(interrupted)\n> ")
        terminal.types("hi there you")
        terminal.shows("> ", times=3)
        # The turn ends a moment after its answer is seen.
        soon(is_idle, within=PATIENCE)
        terminal.process.send_signal(signal.SIGINT)
        assert terminal.process.wait(PATIENCE) == 0
        assert "Traceback" not in terminal.screen


@pytest.mark.parametrize("term", ["dumb", "xterm-256color"])
@pytest.mark.parametrize("how", ["hang up", "SIGHUP"])
def test_when_the_terminal_is_closed_it_leaves_and_shows_the_answer_the_next_time(
    tmp_path: Path, how: str, term: str
) -> None:
    with chat(tmp_path, term) as terminal:
        terminal.types("count to 6")
        terminal.shows("1\n")
        if how == "SIGHUP":
            terminal.process.send_signal(signal.SIGHUP)
        else:
            terminal.hangs_up()
        assert terminal.process.wait(PATIENCE) is not None
    assert "it crashed" not in (tmp_path / "logs" / "gateway.log").read_text()
    with chat(tmp_path) as terminal:
        terminal.shows("Done.\n> ")
        assert terminal.leaves() == 0


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


def has_heard(home: Path, messages: int) -> bool:
    return len(asked(home)) == messages


# --- what is typed and pasted -------------------------------------------------------------------------


def code(size: int, seed: int) -> str:
    """A text as somebody pastes it: indented, with tabs, blank lines, blanks at the ends of lines."""
    chance, lines, length = random.Random(seed), list[str](), 0  # noqa: S311
    while length < size:
        indent = chance.choice(["", "    ", "\t", "\t\t  "])
        lines.append(indent + chance.choice(["def f(x):", "return 'ä€😀'", "", "x = 1   ", "#" * 5000]))
        length += len(lines[-1].encode()) + 1
    return "\n".join(["  begins indented", *lines, "\tends indented  "])


@pytest.mark.parametrize("term", ["dumb", "xterm-256color"])
def test_a_pasted_text_of_100_kb_is_one_message_to_the_letter(tmp_path: Path, term: str) -> None:
    text, line = code(100_000, seed=14), "x" * 100_000
    with chat(tmp_path, term) as terminal:
        for number, pasted in enumerate((text, line), start=1):
            # A terminal sends a line end as Enter does.
            terminal.types(PASTE.format(pasted.replace("\n", "\r")))
            soon(partial(has_heard, tmp_path, number), within=PATIENCE)
        assert terminal.leaves() == 0
    assert asked(tmp_path) == [text, line]


def test_a_text_that_is_pasted_while_an_answer_grows_arrives_whole(tmp_path: Path) -> None:
    text = code(20_000, seed=15)
    with chat(tmp_path, "xterm-256color") as terminal:
        terminal.types("count to 3")
        terminal.shows("1")
        for _ in range(20):
            terminal.types(PASTE.format(text.replace("\n", "\r")), end="")
        terminal.shows("Done.")
        terminal.types("")
        soon(partial(has_heard, tmp_path, 2), within=PATIENCE)
        assert terminal.leaves() == 0
    assert asked(tmp_path) == ["count to 3", text * 20]


def test_a_line_that_is_edited_is_sent_as_it_was_left(tmp_path: Path) -> None:
    with chat(tmp_path, "xterm-256color") as terminal:
        terminal.types(
            "    two wprds\x1b[D\x1b[D\x1b[D\x1b[D\x7fw\x1b[3~o"
        )  # left four times, backspace, delete
        terminal.shows("You")
        terminal.types("never mind\x03done")  # Ctrl-C clears the line
        soon(partial(has_heard, tmp_path, 2), within=PATIENCE)
        assert terminal.leaves() == 0
    assert asked(tmp_path) == ["    two words", "done"]


# --- ways out -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("term", ["dumb", "xterm-256color"])
@pytest.mark.parametrize("way", ["Ctrl-D", "Ctrl-C", "SIGTERM", "SIGHUP", "SIGINT"])
def test_the_terminal_is_as_before_however_the_chat_ends(tmp_path: Path, way: str, term: str) -> None:
    with chat(tmp_path, term) as terminal:
        soon(lambda: not terminal.is_as_before, within=PATIENCE)
        if way.startswith("Ctrl"):
            terminal.types("\x04" if way == "Ctrl-D" else "\x03", end="")
        else:
            terminal.process.send_signal(getattr(signal, way))
        assert terminal.process.wait(PATIENCE) == 0
        assert terminal.is_as_before
        assert term == "dumb" or terminal.screen.count("\x1b[?2004l") == 1, "pasting is as before, too"
        assert "Traceback" not in terminal.screen


def test_the_terminal_is_as_before_when_the_chat_crashes(tmp_path: Path) -> None:
    (tmp_path / "gateway.db").mkdir()
    with chat(tmp_path, "xterm-256color") as terminal:
        assert terminal.process.wait(PATIENCE) == 78
        assert terminal.is_as_before
        assert "gateway.db" in terminal.screen


def test_who_leaves_in_the_middle_of_an_answer_is_not_answered_the_next_time(tmp_path: Path) -> None:
    with chat(tmp_path) as terminal:
        terminal.types("count to 50")
        terminal.shows("2\n")
        assert terminal.leaves() == 0
    with chat(tmp_path) as terminal:
        terminal.types("/status")
        terminal.shows("Nothing is running here")
        assert "3\n" not in terminal.screen


# --- a question from a pipe ---------------------------------------------------------------------------


def piped(home: Path, question: str, **more: str) -> subprocess.CompletedProcess[str]:
    """`echo question | hermes-trio chat`."""
    return subprocess.run(
        CHAT,
        env=environment(home, **more),
        input=question,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_a_piped_question_is_answered_and_the_command_ends(tmp_path: Path) -> None:
    configure(tmp_path)
    done = piped(tmp_path, "  the first line\n\n\tthe last line\n")
    assert (done.returncode, done.stdout) == (
        0,
        "You said:   the first line\n\n\tthe last line\n".replace(":  ", ":"),
    )
    assert asked(tmp_path) == ["  the first line\n\n\tthe last line"]
    assert piped(tmp_path, "/whoami").stdout.startswith("console user me"), "also a command"
    with chat(tmp_path) as terminal:
        terminal.types("/status")
        terminal.shows("Nothing is running here")
        assert "You said" not in terminal.screen, "nothing is answered a second time"


def test_a_piped_question_without_an_answer_leaves_1_and_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(
        "model: {provider: openai, name: x, base_url: 'http://127.0.0.1:9/v1'}\n", "utf-8"
    )
    done = piped(tmp_path, "hello")
    assert done.returncode == 1
    assert "no connection" in done.stdout
    assert done.stderr.endswith("error: The question was not answered, and is not kept. Ask it again.\n")
    assert states(tmp_path) == ["done"]


def test_a_piped_question_is_not_kept_while_the_gateway_is_held(tmp_path: Path) -> None:
    configure(tmp_path)
    subprocess.run([*CHAT[:-1], "drain", "begin"], env=environment(tmp_path), check=True, timeout=60)
    done = piped(tmp_path, "hello")
    assert done.returncode == 1
    assert states(tmp_path) == ["done"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_piped_question_can_be_stopped_and_is_not_taken_up_later(
    tmp_path: Path, number: signal.Signals
) -> None:
    configure(tmp_path)
    pipe = subprocess.PIPE
    with subprocess.Popen(
        CHAT, env=environment(tmp_path), stdin=pipe, stdout=pipe, stderr=pipe, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write("count to 100")
        process.stdin.close()
        assert process.stdout.readline() == "1\n"
        process.send_signal(number)
        assert process.wait(PATIENCE) == 1
    assert states(tmp_path) == ["done"]
    assert "3\n" not in piped(tmp_path, "/status").stdout


def test_a_piped_question_whose_answer_nobody_reads_is_stopped(tmp_path: Path) -> None:
    """`echo count | hermes-trio chat | head -1`."""
    configure(tmp_path)
    pipe = subprocess.PIPE
    with subprocess.Popen(CHAT, env=environment(tmp_path), stdin=pipe, stdout=pipe, stderr=pipe) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(b"count to 100")
        process.stdin.close()
        assert process.stdout.readline() == b"1\n"
        process.stdout.close()
        assert process.wait(PATIENCE) == 1
    assert states(tmp_path) == ["done"]


@pytest.mark.parametrize("asks", ["ask", "danger"])
def test_who_asks_through_a_pipe_is_asked_nothing(tmp_path: Path, asks: str) -> None:
    configure(tmp_path)
    done = piped(tmp_path, asks)
    assert done.returncode == 0
    assert "made and removed: /" not in done.stdout, "no answer is a no"


def test_an_empty_pipe_is_no_question(tmp_path: Path) -> None:
    done = piped(tmp_path, " \n")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "error: There is no question: standard input is empty, and no terminal.\n"


def states(home: Path) -> list[str]:
    """What has become of what was said."""
    with closing(reading(home)) as db:
        return [state for (state,) in db.execute("SELECT state FROM inbox ORDER BY inbox_id")]
