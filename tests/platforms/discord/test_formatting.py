"""Markdown of models as Discord's Markdown."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hermes_platforms.discord.discord_link import fitting, nonce_of
from hermes_platforms.discord.formatting import to_discord
from hermes_platforms.discord.testing.discord_routes import shown_text

BLOCKS = ["word ", "\n", "\n\n", "    ", "| a | b |\n|---|---|\n| 1 | 2 |\n", "#### ", "***", "||", "\\", "é"]
FENCES = ["\n```\n", "\n~~~\n", "\n```py\nx = 1\n", "![x](http://y)"]
PIECES = [*BLOCKS, *FENCES, "`", "- ", "> ", "1. ", "```"]


@pytest.mark.parametrize(
    ("markdown", "discord"),
    [
        ("**bold** _it_ `code` [a](https://b.c)", "**bold** _it_ `code` [a](https://b.c)"),
        ("# One\n\n#### Four", "# One\n\n**Four**"),
        ("a\n\n---\n\nb", "a\n\n———\n\nb"),
        ("See ![a cat](https://c.at/1.png)", "See [🖼 a cat](https://c.at/1.png)"),
        ("| a | bb |\n|---|---|\n| **1** | 2 |", "```\na | bb\n--+---\n1 | 2\n```"),
        ("~~~py\nx = 1\n~~~", "```py\nx = 1\n```"),
        ("```py\nx = 1", "```py\nx = 1\n```"),
        ("    code\n\nafter", "```\ncode\n```\n\nafter"),
        ("````\n```\n````", "```\n``\N{ZERO WIDTH SPACE}`\n```"),
    ],
)
def test_a_block_that_discord_does_not_have_is_written_anew(markdown: str, discord: str) -> None:
    assert to_discord(markdown) == discord


@given(st.lists(st.sampled_from(PIECES), max_size=12).map("".join))
def test_any_markdown_keeps_its_words(markdown: str) -> None:
    assert to_discord(markdown).count("word") >= markdown.count("word")


@given(st.lists(st.sampled_from([*BLOCKS, *FENCES]), max_size=12).map("".join))
def test_the_fences_of_any_markdown_are_closed(markdown: str) -> None:
    assert len(re.findall(r"^```", to_discord(markdown), re.MULTILINE)) % 2 == 0


@pytest.mark.parametrize(
    ("before", "code", "after"),
    [
        ("Run this?\n", "rm -rf *", "\nBecause of `it`."),
        ("||hidden\n", "echo `date`", "\nhidden||"),
        ("", "cat <<'E'\n```\nE", ""),
        ("`", "ls", "`"),
        ("**", "a\nb", "**"),
        ("", "py\nimport x", ""),
    ],
)
def test_a_preformatted_part_is_shown_exactly_whatever_stands_beside_it(
    before: str, code: str, after: str
) -> None:
    text = before + code + after
    content = to_discord(text, ((len(before), len(before) + len(code)),))
    shown, _ = shown_text({"content": content}, has_files=False)
    assert shown == text


@given(st.text(alphabet="ab`|*_~<>@:\\/#-. \n", min_size=1, max_size=30))
@example("`")
@example("a``")
def test_any_preformatted_text_is_shown_exactly(code: str) -> None:
    if code.strip():
        shown, _ = shown_text({"content": to_discord(code, ((0, len(code)),))}, has_files=False)
        assert shown == code


def test_a_text_whose_form_is_too_long_is_sent_as_it_is() -> None:
    table = "| a | b |\n|---|---|\n" + "| 1 | 2 |\n" * 150 + "| " + "x" * 300 + " | 2 |"
    assert fitting(table) == table


def test_a_nonce_is_as_long_as_discord_takes_it_and_differs_for_each_key() -> None:
    assert len(nonce_of("key")) == 25
    assert nonce_of("key") == nonce_of("key") != nonce_of("key:1")
