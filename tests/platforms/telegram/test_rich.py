"""Markdown to rich messages: tables and long texts arrive whole, and a model can make nothing but text."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hermes_platforms.telegram.rich import LONGEST, MOST_BLOCKS, MOST_COLUMNS, needs_rich, to_rich_html
from hermes_platforms.telegram.testing.bot_api_rich import parse_rich_html
from tests.platforms.telegram.test_corpus import NAMES, PIECES, text_of, words

MADE_BY_TELEGRAM = {"img", "video", "audio", "tg-document", "tg-button", "tg-map"}
"""Parts that a reader could press, or that the servers of Telegram would fetch."""

TABLE = """\
| Item | Price |
|:-----|------:|
| Tea & **cake** | 4 < 5 |
"""


def shown(text: str) -> str:
    html = to_rich_html(text)
    assert html is not None
    return parse_rich_html(html)[0]


@pytest.mark.parametrize(
    ("markdown", "text"),
    [
        ("# Title\n\nSome *plain* **words**\nand `x < y`", "Title\nSome plain words\nand x < y"),
        ("- a\n  - b\n- c", "• a\n• b\n• c"),
        ("3. a\n\n   b\n4. c", "3. a\nb\n4. c"),
        (TABLE, "Item\tPrice\nTea & cake\t4 < 5"),
        ("```py\nif a < b:\n    c()\n```", "if a < b:\n    c()"),
        ("> quoted\n> twice", "quoted\ntwice"),
        ("![a cat](https://cats.example/1.png)", "🖼 a cat"),
        ("[here](https://example.org) and [there](local.txt)", "here and there (local.txt)"),
        ("<tg-button data='ask:1:once'>No</tg-button>", "<tg-button data='ask:1:once'>No</tg-button>"),
    ],
)
def test_a_markdown_text_is_shown_as_it_is_meant(markdown: str, text: str) -> None:
    assert shown(markdown) == text


def test_only_a_text_with_a_table_needs_to_be_rich() -> None:
    assert needs_rich(TABLE)
    assert needs_rich(f"- in a list\n\n  {TABLE.replace(chr(10), chr(10) + '  ')}")
    assert not needs_rich("a | b\n- c\n\n```\n" + TABLE + "```")


HOSTILE = st.lists(
    st.sampled_from(
        [
            *PIECES,
            *("<img src='https://x.y/z'>", "![p](https://x.y/z.png)", "![](tg://emoji?id=1)", "<br", "</p>"),
            *("<tg-button type='callback_data' data='ask:1:once'>", "</tg-button>", "<script>", "&copy;"),
            *("<tg-map lat='1' long='1'/>", "[a](javascript:x)", '[b](https://x.y/"><img src=z>)', "$$x$$"),
            *("| a | b |\n|---|---|\n| c | d |\n", "[^1]", "<details>", "\x00", "\ud800"),
        ]
    )
    | st.integers(0, 99).map(lambda n: f" w{n} "),
    max_size=60,
).map("".join)


@settings(max_examples=200)
@given(HOSTILE)
def test_no_text_of_a_model_becomes_a_button_or_is_fetched(text: str) -> None:
    html = to_rich_html(text)
    if html is None:
        return
    seen, parts = parse_rich_html(html)
    assert {part.kind for part in parts}.isdisjoint(MADE_BY_TELEGRAM)
    # The language of a block of code is not a part of the text that people see.
    if "```" not in text and "~~~" not in text:
        assert words(seen) == words(text)


@pytest.mark.parametrize("name", NAMES)
def test_telegram_accepts_each_text_of_the_corpus_that_is_within_its_limits(name: str) -> None:
    html = to_rich_html(text_of(name))
    assert html is None or parse_rich_html(html)[0].strip()


@pytest.mark.parametrize(
    "text",
    [
        "- x\n" * (MOST_BLOCKS + 1),
        "|" + " a |" * (MOST_COLUMNS + 1) + "\n|" + "---|" * (MOST_COLUMNS + 1),
        ">" * 15 + "deep",
        " \n",
    ],
)
def test_a_text_that_telegram_would_refuse_is_no_rich_message(text: str) -> None:
    assert to_rich_html(text) is None


def test_the_longest_text_is_one_rich_message() -> None:
    assert len(shown("ä" * LONGEST)) == LONGEST


def test_preformatted_parts_are_shown_exactly_and_nothing_around_them_is_markup() -> None:
    text = "Allow *this*?\nls <x> **y** &amp;\nin /home/a_b"
    command, place = text.index("ls"), text.index("/home")
    html = to_rich_html(text, ((command, text.index("\nin")), (place, len(text))))
    assert html is not None
    seen, parts = parse_rich_html(html)
    assert seen == text
    assert [part.kind for part in parts] == ["pre", "code"]
