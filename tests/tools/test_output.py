"""Output of any length, as a model is sent it: the work does not grow with it, and no cut shows half a
secret."""

from __future__ import annotations

import pytest

from hermes_trio.masking.redaction import redactor
from hermes_trio.tools.output import LONGEST_CLEANED, MARGIN, MOST, fitted, shortened

SECRET = "sk-" + "0123456789abcdef" * 4
ROOM = 200
"""Characters of the note that something is left out."""


class Counting:
    """Masks secrets, and remembers the longest text that it was given."""

    def __init__(self) -> None:
        self._redact = redactor(iter([]))
        self.longest = 0

    def __call__(self, text: str) -> str:
        self.longest = max(self.longest, len(text))
        return self._redact(text)


@pytest.mark.parametrize("padding", range(0, 70, 6))
def test_a_text_of_megabytes_is_cut_before_it_is_searched(padding: int) -> None:
    redact = Counting()
    text = "FIRST " + f"{'-' * padding} {SECRET} " * 20_000 + " LAST"
    for said in (fitted("", text, redact), shortened(text, MOST, redact)):
        assert said.startswith("FIRST ")
        assert said.endswith(" LAST")
        assert len(said) <= MOST + ROOM
        assert not any(SECRET[at : at + 12] in said for at in range(0, len(SECRET) - 12, 4))
    assert redact.longest <= MOST + MARGIN


def test_a_progress_bar_is_cleaned_before_it_is_cut() -> None:
    text = "begin\n" + "".join(f"{n} %\r" for n in range(60_000)) + "100 %\nend"
    assert MOST < len(text) < LONGEST_CLEANED
    assert fitted("", text, Counting()) == "begin\n100 %\nend"


def test_what_fits_is_whole() -> None:
    text = "x" * (MOST - 1)
    assert shortened(text, MOST, Counting()) == text
    assert fitted("", text, Counting()) == text
