"""Markdown of models as mrkdwn, and texts that are shown exactly."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_platforms.slack.exact_blocks import exact_block
from hermes_platforms.slack.formatting import to_mrkdwn
from hermes_platforms.slack.testing.slack_methods import read_exact

NASTY = st.text(alphabet=st.sampled_from("ab <>&*_~`|[]()!#-+.:/@\\\n1 \té🙂"), max_size=80)


@pytest.mark.parametrize(
    ("markdown", "mrkdwn"),
    [
        ("**bold** *it* ~~gone~~ `code`", "*bold* _it_ ~gone~ `code`"),
        ("# Head *it*", "*Head _it_*"),
        ("**a __b__ c**", "*a b c*"),
        ("# **Head**", "*Head*"),
        ("a < b && c > d", "a &lt; b &amp;&amp; c &gt; d"),
        ("<!channel> <@U1> <https://x.org>", "&lt;!channel&gt; &lt;@U1&gt; <https://x.org|https://x.org>"),
        ("[the page](https://x.org/?a=1&b=2)", "<https://x.org/?a=1&amp;b=2|the page>"),
        ("[run](javascript:alert(1))", "[run](javascript:alert(1))"),
        ("[secret](slack://open)", "secret"),
        ("![a|b](https://x.org/a.png)", "<https://x.org/a.png|🖼 a¦b>"),
        ("- one\n  - two\n\n    more\n- three", "• one\n    • two\n        more\n• three"),
        ("3. three\n4. four", "3. three\n4. four"),
        ("> said\n>\n> more", "> said\n>\n> more"),
        ("---", "———"),
        ("```python\nx = 1 < 2\n```\nafter", "```\nx = 1 &lt; 2\n```\n\nafter"),
        ("~~~\nopen ```", "```\nopen ``\u200b`\n```"),
        ("| a | b |\n|---|---|\n| 1 | long |", "```\na | b\n--+-----\n1 | long\n```"),
        ("para\none\n\npara two", "para\none\n\npara two"),
    ],
)
def test_markdown_becomes_mrkdwn(markdown: str, mrkdwn: str) -> None:
    assert to_mrkdwn(markdown) == mrkdwn


@given(NASTY)
def test_no_text_calls_anybody_and_every_link_is_one_of_the_web(markdown: str) -> None:
    written = to_mrkdwn(markdown)
    assert all(re.match(r"(https?://|mailto:)[^<>|]*\|[^<>|]*>", one) for one in written.split("<")[1:])
    assert re.fullmatch(r"(?:[^&]|&(?:amp|lt|gt);)*", written)


@given(NASTY)
def test_fences_are_closed_and_words_are_kept(markdown: str) -> None:
    written = to_mrkdwn(markdown)
    assert len(re.findall(r"(?m)^[ >•\d.)]*```$", written)) % 2 == 0
    for word in re.findall(r"[ab]{2,}", markdown):
        if not re.search(r"[\[\]()<>!:]", markdown):  # an address may be left out
            assert word in written


@given(st.text(alphabet="ab`*<&\n ", max_size=30), st.data())
def test_an_exact_block_shows_every_character_of_a_text_and_of_its_exact_parts(
    text: str, data: st.DataObject
) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), min_size=4, max_size=4)))
    spans = tuple((start, end) for start, end in (cuts[:2], cuts[2:]) if start < end)
    shown, exact = read_exact(exact_block(text, spans))
    assert shown.replace("\n", "") == text.replace("\n", "")
    assert [shown[start:end] for start, end in exact] == [text[start:end] for start, end in spans]
