"""`echo question | hermes-trio chat`: one question is answered, and the command ends."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests.cli.chat.chat_terminal import (
    CHAT,
    PATIENCE,
    asked,
    chat,
    configure,
    environment,
    inbox_states,
)

pytestmark = pytest.mark.skipif(os.name != "posix", reason="the tests need a pseudo terminal")


def piped(home: Path, question: str, **more: str) -> subprocess.CompletedProcess[str]:
    """Run `echo question | hermes-trio chat`."""
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
    assert piped(tmp_path, "/whoami").stdout.startswith("api user terminal-"), "also a command"
    with chat(tmp_path) as terminal:
        terminal.types("/status")
        terminal.shows("Nothing is running here")
        assert terminal.screen.count("You said") == 1, "no message is answered a second time"


def test_a_piped_question_without_an_answer_exits_with_1_and_is_not_kept(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(
        "model: {provider: openai, name: x, base_url: 'http://127.0.0.1:9/v1'}\n", "utf-8"
    )
    done = piped(tmp_path, "hello")
    assert done.returncode == 1
    assert done.stdout == ""
    assert "no connection" in done.stderr
    assert done.stderr.endswith("error: The question was not answered, and is not kept. Ask it again.\n")
    assert inbox_states(tmp_path) == ["done"]


def test_a_piped_question_is_not_kept_while_the_gateway_is_drained(tmp_path: Path) -> None:
    configure(tmp_path)
    subprocess.run([*CHAT[:-1], "drain", "begin"], env=environment(tmp_path), check=True, timeout=60)
    done = piped(tmp_path, "hello")
    assert done.returncode == 1
    assert done.stderr.startswith("error: The gateway is stopping or held")
    assert inbox_states(tmp_path) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_stopped_piped_question_is_not_resumed_later(tmp_path: Path, number: signal.Signals) -> None:
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
    assert inbox_states(tmp_path) == ["done"]
    assert "3\n" not in piped(tmp_path, "/status").stdout


def test_a_piped_question_is_stopped_if_its_output_is_closed(tmp_path: Path) -> None:
    """Like `echo count | hermes-trio chat | head -1`."""
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
    assert inbox_states(tmp_path) == ["done"]


@pytest.mark.parametrize("asks", ["ask", "danger"])
def test_questions_to_a_person_are_not_asked_through_a_pipe(tmp_path: Path, asks: str) -> None:
    configure(tmp_path)
    done = piped(tmp_path, asks)
    assert done.returncode == 0
    assert "made and removed: /" not in done.stdout, "no answer is a no"


def test_an_empty_pipe_is_an_error(tmp_path: Path) -> None:
    done = piped(tmp_path, " \n")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        "error: There is no question: standard input is empty. "
        "Write one to it, or start the chat in a terminal.\n"
    )


def test_ask_adds_a_piped_text_to_its_question_and_begins_a_new_session(tmp_path: Path) -> None:
    configure(tmp_path)
    done = subprocess.run(
        [*CHAT[:-1], "ask", "what", "is", "this?"],
        env=environment(tmp_path), input="a\n\tb\n", capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "You said: what is this?\n\na\n\tb\n"
    with chat(tmp_path) as terminal:  # the gateway of this chat answers
        done = subprocess.run(
            [*CHAT[:-1], "ask", "and this?"],
            env=environment(tmp_path), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60,
            check=False,
        )  # fmt: skip
        assert (done.returncode, done.stdout) == (0, "You said: and this?\n")
        terminal.types("/sessions")
        terminal.shows("  1  and this?\n")
        terminal.types("/open 1")
        terminal.shows("> and this?\nYou said: and this?")
