"""Lines that fit: properties of the splitting and of the conversion of Markdown."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_platforms.irc.formatting import to_irc
from hermes_platforms.irc.splitting import (
    BOLD,
    CODES,
    CONTINUED,
    EXACT,
    ITALIC,
    SMALLEST_ROOM,
    packed,
    pieces,
)

NO_CODES = str.maketrans("", "", CODES)
LINES = st.text(
    st.characters(exclude_categories=["Cs", "Cc", "Zl", "Zp"]) | st.sampled_from("👍🏽🇩🇪é é  " + CODES)
)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]) | st.sampled_from("*_~`#>- \n|[]()x"), max_size=300)


@given(LINES, st.integers(SMALLEST_ROOM, 120))
def test_pieces_fit_and_hold_the_text_in_order(line: str, room: int) -> None:
    cut = list(pieces(line, room))
    assert "".join(cut).translate(NO_CODES) == line.translate(NO_CODES)
    assert all(0 < len(piece.encode()) <= room for piece in cut)
    assert all(piece.encode().decode() == piece for piece in cut)


@given(LINES, st.integers(SMALLEST_ROOM, 120))
def test_each_character_has_the_formatting_that_it_had_before_the_cut(line: str, room: int) -> None:
    assert [mark for piece in pieces(line, room) for mark in formatted(piece)] == list(formatted(line))


def formatted(line: str) -> list[tuple[str, frozenset[str]]]:
    """Return the characters of a line, each with the formatting that is on there."""
    on: frozenset[str] = frozenset()
    shown = []
    for one in line:
        if one in CODES:
            on ^= {one}
        else:
            shown.append((one, on))
    return shown


@pytest.mark.parametrize("whole", ["👩‍👩‍👧‍👦", "👍🏽", "é", "नि"])
def test_what_people_count_as_one_character_is_not_cut(whole: str) -> None:
    for before in range(40):
        line = "x" * before + whole + "y" * 40
        assert any(whole in piece for piece in pieces(line, 36)), before


def test_a_long_word_is_cut_and_a_sentence_at_its_spaces() -> None:
    assert list(pieces("x" * 70, 32)) == ["x" * 32, "x" * 32, "x" * 6]
    sentence = "one two three four five six seven eight nine ten"
    assert all(piece.endswith(" ") for piece in list(pieces(sentence, 32))[:-1])


@given(st.lists(st.text(min_size=1), min_size=1, max_size=90), st.integers(1, 30))
def test_packed_lines_keep_their_order(lines: list[str], most: int) -> None:
    assert len(packed(lines, most)) <= most
    assert " ¦ ".join(packed(lines, most)) == " ¦ ".join(lines)


@given(TEXTS)
def test_any_text_becomes_lines_that_hold_nothing_but_text_and_formatting(text: str) -> None:
    for line in to_irc(text):
        assert line.strip()
        assert not [one for one in line if unicodedata.category(one) == "Cc" and one not in CODES]
        assert all(line.count(code) % 2 == 0 for code in CODES), "what is opened in a line is closed in it"
    assert not any(set(CODES) & set(line) for line in to_irc(text, codes=False))


@given(TEXTS, TEXTS)
def test_a_preformatted_part_is_shown_exactly_whatever_is_around_it(around: str, exact: str) -> None:
    exact = "".join(one if one.isprintable() or one == "\n" else "?" for one in exact)
    text = f"{around}\n{exact}\n{around}"
    start = len(around) + 1
    shown = to_irc(text, ((start, start + len(exact)),))
    assert [line.removeprefix(EXACT) for line in shown if line.startswith(EXACT)] == exact.split("\n")


@given(LINES, st.integers(SMALLEST_ROOM, 120))
def test_each_further_piece_of_an_exact_line_has_a_mark(line: str, room: int) -> None:
    first, *others = (piece.translate(NO_CODES) for piece in pieces(EXACT + line, room))
    assert first.startswith(EXACT)
    assert all(one.startswith(CONTINUED) for one in others)
    whole = first.removeprefix(EXACT) + "".join(one.removeprefix(CONTINUED) for one in others)
    assert whole == line.translate(NO_CODES)


def test_markdown_is_shown_as_people_on_irc_write_it() -> None:
    markdown = (
        "# Plan **now**\n\nSome *words* and **bold *both*** in `co*de*`.\n\n- one\n- two\n  1. deep\n\n"
        "> quoted\n> again\n\n```python\nif x:\n    y = '**'\n```\n\n"
        "[docs](https://example.org/a) and <https://example.org> ~~no~~\n\n"
        "| a | b |\n|---|---|\n| 1 | 2 |\n\n---\n![cat](https://example.org/c.png)"
    )
    assert to_irc(markdown) == [
        f"{BOLD}Plan now{BOLD}",
        f"Some {ITALIC}words{ITALIC} and {BOLD}bold {ITALIC}both{ITALIC}{BOLD} in `co*de*`.",
        "- one",
        "- two",
        "  1. deep",
        "> quoted",
        "> again",
        "if x:",
        "    y = '**'",
        "docs (https://example.org/a) and https://example.org \x1eno\x1e",
        f"{BOLD}a | b{BOLD}",
        "1 | 2",
        "———",
        "cat (https://example.org/c.png)",
    ]


def test_a_request_to_a_client_and_a_second_line_cannot_be_written_into_an_answer() -> None:
    assert to_irc("\x01DCC SEND x\x01 and\r\nQUIT") == [" DCC SEND x  and", "QUIT"]
