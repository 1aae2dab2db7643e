"""Shortening of output: the work is bounded for any length, and no cut shows half a secret."""

from __future__ import annotations

import pytest

from hermes_trio.masking.redaction import redactor
from hermes_trio.tools.output import LONGEST_CLEANED, MARGIN, MOST, fitted, shortened

SECRET = "sk-" + "0123456789abcdef" * 4
ROOM = 200
"""Characters of the note about the missing part."""


class Counting:
    """Masks secrets, and records the length of the longest text."""

    def __init__(self) -> None:
        self._redact = redactor(iter([]))
        self.longest = 0

    def __call__(self, text: str) -> str:
        self.longest = max(self.longest, len(text))
        return self._redact(text)


@pytest.mark.parametrize("padding", range(0, 70, 6))
def test_an_output_of_megabytes_is_cut_before_it_is_masked(padding: int) -> None:
    redact = Counting()
    text = "FIRST " + f"{'-' * padding} {SECRET} " * 20_000 + " LAST"
    for said in (fitted("", text, redact), shortened(text, MOST, redact)):
        assert said.startswith("FIRST ")
        assert said.endswith(" LAST")
        assert len(said) <= MOST + ROOM
        assert not any(SECRET[at : at + 12] in said for at in range(0, len(SECRET) - 12, 4))
    assert redact.longest <= MOST + MARGIN


def test_a_progress_bar_is_cleaned_before_the_output_is_cut() -> None:
    text = "begin\n" + "".join(f"{n} %\r" for n in range(60_000)) + "100 %\nend"
    assert MOST < len(text) < LONGEST_CLEANED
    assert fitted("", text, Counting()) == "begin\n100 %\nend"


def test_an_output_within_the_limit_is_unchanged() -> None:
    text = "x" * (MOST - 1)
    assert shortened(text, MOST, Counting()) == text
    assert fitted("", text, Counting()) == text
