"""Split of a long answer into messages: nothing is lost, no character is torn, code stays code."""

from __future__ import annotations

import re
import time
from itertools import accumulate, pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hermes_trio.gateway.outbound.split import SMALLEST_LIMIT, chunks
from hermes_trio.platform.contract import Counting, Traits

NUMBER = re.compile(r"[ \n]\((\d+)/(\d+)\)\Z")
FENCE = re.compile(r"[ \t]*(`{3,}|~{3,})[^\n]*")
COUNTINGS: list[Counting] = ["characters", "utf-16", "bytes"]

FAMILY = "👩‍👩‍👧"
SHAKEN = "🤝🏽"
ENGLAND = "🏴" + "".join(map(chr, (0xE0067, 0xE0062, 0xE0065, 0xE006E, 0xE0067, 0xE007F)))
CHARACTERS = ["a", "e\u0301", "ß", "😀", FAMILY, SHAKEN, ENGLAND, "🇩🇪", "🇫🇷", "1\ufe0f\u20e3", "한", "नि"]


def width(text: str, counting: Counting) -> int:
    match counting:
        case "characters":
            return len(text)
        case "utf-16":
            return len(text.encode("utf-16-le")) // 2
        case "bytes":
            return len(text.encode())


def without_numbers(messages: list[str]) -> list[str]:
    """Check the numbers of the messages, and return the messages without them."""
    if len(messages) < 2:
        return messages
    numbers = []
    for message in messages:
        found = NUMBER.search(message)
        assert found is not None
        numbers.append((int(found[1]), int(found[2])))
    assert numbers == [(i, len(messages)) for i in range(1, len(messages) + 1)]
    return [NUMBER.sub("", message) for message in messages]


def readings(message: str) -> set[str]:
    """Yield the possible parts of the text in a message: all of it, or all but a fence added at an end."""
    lines = message.split("\n")
    found = {message}
    opened = len(lines) > 1 and FENCE.fullmatch(lines[0])
    closed = len(lines) > 1 and FENCE.fullmatch(lines[-1])
    if opened:
        found.add("\n".join(lines[1:]))
    if closed:
        found.add("\n".join(lines[:-1]))
    if opened and closed and len(lines) > 2:
        found.add("\n".join(lines[1:-1]))
    return found


def assert_kept(text: str, messages: list[str]) -> None:
    """Check that the messages are the text, in order, and that only white space is missing between two."""
    places = {0}
    for message in without_numbers(messages):
        starts: set[int] = set()
        for place in places:
            gap = len(text[place:]) - len(text[place:].lstrip(" \t\r\n"))
            starts.update(range(place, place + gap + 1))
        places = {
            start + len(part)
            for start in starts
            for part in readings(message)
            if text.startswith(part, start)
        }
        assert places, f"{message!r} is not the next text"
    assert any(not text[place:].strip(" \t\r\n") for place in places)


def seen(text: str) -> list[tuple[str, str | None]]:
    """Return the visible text: each character with the language of its code block. Line ends, and white space
    outside of code, are not visible."""
    found: list[tuple[str, str | None]] = []
    mark = language = None
    for line in text.split("\n"):
        fence = FENCE.fullmatch(line)
        if fence and mark is None:
            mark, language = fence[1], line.strip().removeprefix(fence[1])
        elif fence and mark and line.strip() == mark:
            mark = language = None
        else:
            found += [(c, language) for c in line if mark or not c.isspace()]
    return found


# --- examples ---


def test_a_text_that_fits_is_one_message() -> None:
    assert chunks("Hello.", Traits(limit=100)) == ["Hello."]
    assert chunks("x" * 100, Traits(limit=100)) == ["x" * 100]


@pytest.mark.parametrize("blank", ["", " ", "\n\n \t\r\n", " " * 1000])
def test_an_empty_text_is_no_message(blank: str) -> None:
    assert chunks(blank, Traits(limit=64)) == []


def test_white_space_around_the_text_is_removed_and_the_first_line_stays_indented() -> None:
    assert chunks("\n \n  - one\n  - two\n\n", Traits()) == ["  - one\n  - two"]


def test_a_cut_falls_on_the_end_of_a_line() -> None:
    text = "x" * 50 + "\n" + "y" * 30 + " " + "z" * 40
    assert chunks(text, Traits(limit=100)) == ["x" * 50 + " (1/2)", "y" * 30 + " " + "z" * 40 + " (2/2)"]


def test_the_end_of_a_line_too_far_from_the_limit_is_no_place_to_cut() -> None:
    text = "x" * 40 + "\n" + "y" * 40 + " " + "z" * 40
    assert chunks(text, Traits(limit=100)) == ["x" * 40 + "\n" + "y" * 40 + " (1/2)", "z" * 40 + " (2/2)"]


def test_a_long_word_is_cut_at_the_limit() -> None:
    assert chunks("x" * 150, Traits(limit=100)) == ["x" * 94 + " (1/2)", "x" * 56 + " (2/2)"]


def test_empty_lines_at_a_cut_are_removed_and_indentation_stays() -> None:
    text = "x" * 80 + "  \n\n \n    - " + "y" * 50
    assert chunks(text, Traits(limit=100)) == ["x" * 80 + " (1/2)", "    - " + "y" * 50 + " (2/2)"]


def test_no_message_is_blank() -> None:
    assert chunks("a" + " " * 1000 + "b", Traits(limit=64)) == ["a (1/2)", "b (2/2)"]
    assert chunks(" " * 1000 + "b", Traits(limit=64)) == ["b"]


def test_code_that_is_cut_is_closed_and_opened_again_with_its_language() -> None:
    code = [f"print({i:03})" for i in range(20)]
    text = "Like this:\n\n```python\n" + "\n".join(code) + "\n```\n\nThat is all."
    messages = chunks(text, Traits(limit=160))
    assert messages == [
        "Like this:\n\n```python\n" + "\n".join(code[:11]) + "\n```\n(1/2)",
        "```python\n" + "\n".join(code[11:]) + "\n```\n\nThat is all. (2/2)",
    ]


def test_the_number_stands_on_a_line_of_its_own_after_a_fence() -> None:
    text = "```\n" + "x" * 60 + "\n```\n" + "y" * 60
    assert chunks(text, Traits(limit=100))[0] == "```\n" + "x" * 60 + "\n```\n(1/2)"


def test_unclosed_code_is_closed_in_each_message() -> None:
    messages = chunks("```sh\n" + "echo\n" * 40, Traits(limit=100))
    assert all(message.startswith("```sh\n") for message in messages)
    assert all("\n```\n(" in message for message in messages)


def test_code_does_not_begin_in_a_message_that_has_no_room_for_it() -> None:
    text = "x" * 80 + "\n```python\n" + "y" * 60 + "\n```"
    assert chunks(text, Traits(limit=100)) == [
        "x" * 80 + " (1/2)",
        "```python\n" + "y" * 60 + "\n```\n(2/2)",
    ]


def test_code_about_fences_is_closed_by_its_own_fence_only() -> None:
    text = "````md\n" + "```\ninner\n```\n" * 12 + "````\nDone."
    messages = chunks(text, Traits(limit=100))
    assert len(messages) > 1
    assert [c for m in without_numbers(messages) for c in seen(m)] == seen(text)


def test_spaces_within_code_are_kept() -> None:
    line = "    if a  and   b:    " * 10
    text = f"```\n{line}\n```"
    assert [c for m in without_numbers(chunks(text, Traits(limit=80))) for c in seen(m)] == seen(text)


def test_code_within_a_line_is_not_cut_when_it_can_stand_in_the_next_message() -> None:
    text = "x" * 70 + " `git commit --amend` and so on"
    assert chunks(text, Traits(limit=90)) == ["x" * 70 + " (1/2)", "`git commit --amend` and so on (2/2)"]


def test_three_backticks_around_words_of_one_line_open_nothing() -> None:
    messages = chunks("```x``` is code.\n" + "word " * 30, Traits(limit=100))
    assert not any("\n```" in message for message in messages)


@pytest.mark.parametrize("counting", COUNTINGS)
@pytest.mark.parametrize("character", CHARACTERS)
def test_a_character_is_never_torn(character: str, counting: Counting) -> None:
    for offset in range(len(character.encode())):
        text = "x" * offset + character * 60
        messages = without_numbers(chunks(text, Traits(limit=80, counting=counting)))
        assert "".join(messages) == text
        assert all(len(m.lstrip("x")) % len(character) == 0 for m in messages)


def test_a_character_longer_than_a_message_is_cut() -> None:
    messages = without_numbers(chunks("a" + "\u0301" * 500, Traits(limit=64)))
    assert "".join(messages) == "a" + "\u0301" * 500


def test_a_space_that_carries_a_mark_is_no_place_to_cut() -> None:
    text = "x" * 80 + " \u0301" + "y" * 50
    assert without_numbers(chunks(text, Traits(limit=100))) == [text[:94], text[94:]]


def test_a_lone_surrogate_becomes_the_replacement_character() -> None:
    assert chunks("a\ud83d b\ud83d\ude00", Traits()) == ["a\N{REPLACEMENT CHARACTER} b😀"]


@pytest.mark.parametrize(
    ("counting", "each"),
    [("characters", 94), ("utf-16", 47), ("bytes", 23)],
)
def test_the_limit_counts_what_the_platform_counts(counting: Counting, each: int) -> None:
    assert without_numbers(chunks("😀" * 94, Traits(limit=100, counting=counting)))[0] == "😀" * each


def test_ten_or_more_messages_have_room_for_their_numbers() -> None:
    messages = chunks("x" * 5000, Traits(limit=64))
    assert max(map(len, messages)) == 64
    assert "".join(without_numbers(messages)) == "x" * 5000


@pytest.mark.parametrize("limit", [-1, 0, 1, SMALLEST_LIMIT - 1])
def test_a_limit_that_leaves_no_room_is_refused(limit: int) -> None:
    with pytest.raises(ValueError, match="is less than 64"):
        chunks("x", Traits(limit=limit))


HOSTILE = {
    "one word": "x" * 250_000,
    "emoji": "😀" * 250_000,
    "marks": "a" + "\u0301" * 250_000,
    "flags": "🇩🇪" * 125_000,
    "spaces": "a" + " " * 250_000 + "b",
    "empty lines": "a" + "\n" * 250_000 + "b",
    "backticks": "`" * 250_000,
    "fences": "```\n" * 60_000,
    "quotes": "` " * 125_000,
    "empty code": "```\n" + "\n" * 250_000 + "x\n```",
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=list(HOSTILE))
def test_the_time_of_the_split_grows_with_the_length(text: str) -> None:
    for limit in (64, 4096):
        start = time.process_time()
        messages = chunks(text, Traits(limit=limit, counting="utf-16"))
        assert (
            time.process_time() - start < 1
        )  # measured: a tenth of that; with quadratic time it would be minutes
        assert all(width(m, "utf-16") <= limit for m in messages)


# --- properties ---

traits = st.builds(Traits, limit=st.sampled_from([64, 65, 80, 100, 300]), counting=st.sampled_from(COUNTINGS))
anything = st.lists(
    st.one_of(
        st.text(st.characters(exclude_categories=["Cs"]), max_size=40),
        st.sampled_from(
            ["\n", " ", "\n\n", "`", "```", "\n```\n", "\n```py\n", "~~~~", "\n~~~\n", "\n  ````", "\t"]
        ),
        st.sampled_from(["word " * 12, "x" * 60, "`" * 20, "\n" * 30, " " * 70, "  \n" * 30]),
    ),
    max_size=25,
).map("".join)


@given(anything, traits)
@example("```\nfoo\n```\n~~~~~\n" + "x" * 60, Traits(limit=64))
@example("x" * 50 + "\n   ```py\n" + "y" * 90, Traits(limit=80))
@example("```\n" + "x" * 47 + "\n\n      ```\ny", Traits(limit=64))
def test_every_message_fits_and_the_text_is_kept(text: str, traits: Traits) -> None:
    messages = chunks(text, traits)
    assert all(width(m, traits.counting) <= traits.limit for m in messages)
    assert all(message.strip(" \t\r\n") for message in messages)
    assert_kept(text, messages)


words = st.text("abcdefgö😀.,-", min_size=1, max_size=12)
line = st.lists(words, min_size=1, max_size=12).map(" ".join)
code_line = st.tuples(st.integers(0, 8), line).map(lambda part: " " * part[0] + part[1])
block = st.builds(
    lambda mark, language, lines: "\n".join([mark + language, *lines, mark]),
    st.sampled_from(["```", "````", "~~~"]),
    st.sampled_from(["", "py", "c++"]),
    st.lists(code_line, min_size=1, max_size=12),
)
documents = st.lists(st.one_of(line, block), min_size=1, max_size=8).map("\n\n".join)


@given(documents, traits)
def test_a_reader_sees_the_same_text_and_the_same_code(text: str, traits: Traits) -> None:
    messages = without_numbers(chunks(text, traits))
    assert [c for message in messages for c in seen(message)] == seen(text)


@given(documents, traits)
def test_no_message_leaves_code_open(text: str, traits: Traits) -> None:
    for message in chunks(text, traits):
        marks = [found[1] for found in map(FENCE.fullmatch, message.split("\n")) if found]
        assert len(marks) % 2 == 0
        assert marks[::2] == marks[1::2]


@given(st.lists(st.sampled_from([*CHARACTERS, " "]), max_size=150), traits)
def test_every_message_has_whole_characters(characters: list[str], traits: Traits) -> None:
    text = "".join(characters)
    borders = set(accumulate(map(len, characters), initial=0))
    place = 0
    for message in without_numbers(chunks(text, traits)):
        place = text.index(message, place)
        assert {place, place + len(message)} <= borders
        place += len(message)


@given(documents)
def test_messages_are_not_needlessly_short(text: str) -> None:
    messages = chunks(text, Traits(limit=300))
    # A message that could have taken all of the next one as well was cut too early.
    for one, other in pairwise(without_numbers(messages)):
        assert len(one) + len(other) > 300 / 2 - 20
