"""What a person sees of `hermes-trio chat` on a terminal that draws."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.cli.chat.chat_terminal import CHAT, PASTE, PATIENCE, asked, configure, inbox_states
from tests.cli.chat.shown_terminal import shown_terminal
from tests.host.children.kinds import soon

pytestmark = pytest.mark.skipif(os.name != "posix", reason="the tests need a pseudo terminal")
EVIL = "\x1b]52;c;cm0gLXJmIH4=\x07 \x9b2J &#27;[2J **loud** \u202e"


def test_an_answer_is_rendered_and_an_approval_is_answered_inline(tmp_path: Path) -> None:
    configure(tmp_path)
    with shown_terminal(CHAT, tmp_path) as terminal:
        terminal.shows(
            "The demo answers", "hermes-trio setup", "Page: http://127.0.0.1:", "new session · ready"
        )
        terminal.types("hello\r")
        screen = terminal.shows("• count to 10", "your-model", "demo · hello · ready")
        assert "**" not in screen
        assert "```" not in screen
        terminal.resizes(60)
        terminal.types("danger\r")
        terminal.shows("May this run?", '  │ made="$(mktemp -d)"', "waits for your yes", without=["· ready"])
        terminal.types("yes\r")
        terminal.shows("✓ terminal made=", "made and removed: /", "That is what came of it.", "· ready")
        assert terminal.leaves() == 0
    assert asked(tmp_path) == ["hello", "danger"]


def test_nothing_of_an_answer_reaches_the_terminal_raw(tmp_path: Path) -> None:
    configure(tmp_path)
    with shown_terminal(CHAT, tmp_path) as terminal:
        terminal.shows("· ready")
        terminal.types(PASTE.format(EVIL) + "\r")
        screen = terminal.shows("You said: \\u001b]52;c;", "\\u009b2J", "loud", "\\u202e", "· ready")
        assert "hermes-trio" in screen, "the screen was not cleared"
        assert terminal.leaves() == 0
    assert asked(tmp_path) == [EVIL], "the message is sent to the letter"
    sent = terminal.sent.decode()
    assert not [one for one in ("\x1b]52", "\x9b", "\u202e") if one in sent]


def test_commands_and_paths_are_completed_and_the_history_outlives_the_chat(tmp_path: Path) -> None:
    configure(tmp_path)
    with shown_terminal(CHAT, tmp_path) as terminal:
        terminal.shows("· ready")
        terminal.types("/sta")
        terminal.shows("/status", "shows the state of this session")
        terminal.types("\t\r")
        terminal.shows("Nothing is running here")
        terminal.types(f"read {tmp_path}/conf\t")
        terminal.shows("config.yaml")
        terminal.types("\x1b\rand say it\r")
        terminal.shows("You said: read", "· ready")
        assert terminal.leaves() == 0
    said = f"read {tmp_path}/config.yaml\nand say it"
    with shown_terminal([*CHAT, "--new"], tmp_path) as terminal:
        terminal.shows("new session · ready")
        terminal.types("\x1b[A")
        terminal.shows("and say it")
        terminal.types("\r")
        terminal.shows("You said: read", "· ready")
        assert terminal.leaves() == 0
    assert asked(tmp_path) == [said, said]
    assert (tmp_path / "terminal_history").stat().st_mode & 0o777 == 0o600


def test_a_session_goes_on_in_two_terminals_and_over_a_killed_gateway(tmp_path: Path) -> None:
    configure(tmp_path)
    with shown_terminal(CHAT, tmp_path) as guest:
        guest.shows("· ready")
        guest.types("first\r")
        guest.shows("You said: first", "· ready")
        assert guest.leaves() == 0
    with shown_terminal(CHAT, tmp_path) as host:
        host.shows("> first", "· ready")
        with shown_terminal(CHAT, tmp_path) as guest:
            guest.shows("at the running gateway", "> first", "· ready")
            guest.types("count to 5\r")
            host.shows("> count to 5", "writes", without=["> first\n\n>"])
            host.process.kill()
            guest.shows("waits for the gateway")
            guest.types("and now?\r")
            guest.shows("Your message is kept here")
            with shown_terminal(CHAT, tmp_path) as successor:
                # The kept message has a turn of its own, or comes before the resumed turn and joins it.
                soon(lambda: asked(tmp_path) == ["first", "count to 5", "and now?"], within=PATIENCE)
                soon(lambda: set(inbox_states(tmp_path)) == {"done"}, within=PATIENCE)
                for terminal in (guest, successor):
                    terminal.shows("Done.", "· ready")
                assert guest.leaves() == 0
                assert successor.leaves() == 0
