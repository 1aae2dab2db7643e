"""Typed and pasted text in `hermes-trio chat` is sent unchanged."""

from __future__ import annotations

import os
import random
from functools import partial
from pathlib import Path

import pytest

from tests.cli.chat.chat_terminal import (
    PASTE,
    PATIENCE,
    asked,
    chat,
    has_heard,
)
from tests.host.children.kinds import soon

pytestmark = pytest.mark.skipif(os.name != "posix", reason="the tests need a pseudo terminal")


def code(size: int, seed: int) -> str:
    """Return a text to paste: indented, with tabs, blank lines, and blanks at the ends of lines."""
    chance, lines, length = random.Random(seed), list[str](), 0  # noqa: S311
    while length < size:
        indent = chance.choice(["", "    ", "\t", "\t\t  "])
        lines.append(indent + chance.choice(["def f(x):", "return 'ä€😀'", "", "x = 1   ", "#" * 5000]))
        length += len(lines[-1].encode()) + 1
    return "\n".join(["  begins indented", *lines, "\tends indented  "])


@pytest.mark.parametrize("term", ["dumb", "xterm-256color"])
def test_a_pasted_text_of_100_kb_is_one_unchanged_message(tmp_path: Path, term: str) -> None:
    text, line = code(100_000, seed=14), "x" * 100_000
    with chat(tmp_path, term) as terminal:
        for number, pasted in enumerate((text, line), start=1):
            # A terminal sends a line end as Enter does.
            terminal.types(PASTE.format(pasted.replace("\n", "\r")))
            soon(partial(has_heard, tmp_path, number), within=PATIENCE)
        assert terminal.leaves() == 0
    assert asked(tmp_path) == [text, line]


def test_a_text_pasted_while_an_answer_grows_arrives_whole(tmp_path: Path) -> None:
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


def test_an_edited_line_is_sent_in_its_last_form(tmp_path: Path) -> None:
    with chat(tmp_path, "xterm-256color") as terminal:
        terminal.types(
            "    two wprds\x1b[D\x1b[D\x1b[D\x1b[D\x7fw\x1b[3~o"
        )  # left four times, backspace, delete
        terminal.shows("You")
        terminal.types("never mind\x03done")  # Ctrl-C clears the line
        soon(partial(has_heard, tmp_path, 2), within=PATIENCE)
        assert terminal.leaves() == 0
    assert asked(tmp_path) == ["    two words", "done"]
