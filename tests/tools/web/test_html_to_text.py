"""Conversion of HTML to text: readable results, and pages that are written to be slow."""

from __future__ import annotations

import threading
import time

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from hermes_trio.tools.web.html_to_text import CHECKED_EVERY, LONGEST_QUOTE, MOST_TOKENS, readable
from hermes_trio.tools.web.http_fetch import LARGEST_BODY

PAGE = """<!DOCTYPE html><html><head><title>News &amp; more</title><style>p > a {color: red}</style>
<script>if (a < b) document.write("<p>not this</p>")</script></head>
<body><!-- <p>nor this</p> --><h1>Today</h1>
<p>First   <b>paragraph</b>,
with a <a href="/more?a=1&amp;b=2" title="a > b">link
  to more</a>.</p><ul><li>one<li>two <a href='#x'>here</a></ul>
<a href="javascript:alert(1)">click</a><br>next line<img src="x.png" alt="A cat">
<table><tr><td>a</td><td>b</td></tr></table><pre>  x = 1
    y</pre><p>5 < 6 &lt; 7</p></body></html>"""


def test_an_html_page_becomes_readable_text() -> None:
    assert readable(PAGE, "https://example.org/a/") == (
        "News & more\n\n# Today\n\n"
        "First paragraph, with a [link to more](https://example.org/more?a=1&b=2).\n\n"
        "- one\n- two here\n\nclick\nnext line[A cat]\n\na | b |\n\n```\n  x = 1\n    y\n```\n\n5 < 6 < 7"
    )


@pytest.mark.parametrize(
    ("page", "text"),
    [
        ("", ""),
        ("plain", "plain"),
        ("a < b", "a < b"),
        ("<", "<"),
        ("a<!-- never closed", "a"),
        ("a<script>never closed", "a"),
        ("a<SCRIPT>x</Script >b", "ab"),
        ("a<svg><title>x</title></svg>b<svg/>c", "abc"),
        ('a<p title="never closed>b', "a\n\nb"),
        ("<a href=http://x.org/y>z</a>", "[z](http://x.org/y)"),
        ("<a href='http://[bad'>z</a>", "z"),
        ("<a data-href='http://x.org'>z</a>", "z"),
        ("<a href='http://x.org'></a>", ""),
        ("<a href=http://x.org>one<a href=http://y.org>two</a>", "[one](http://x.org)[two](http://y.org)"),
        ("&#0;&bogus;&nbsp;&copy", "\N{REPLACEMENT CHARACTER}&bogus; ©"),
        ("</pre>a</pre>", "```\n\na\n```"),
        ("<?xml version='1'?><p>a", "a"),
    ],
)
def test_malformed_html_becomes_readable_text(page: str, text: str) -> None:
    assert readable(page) == text


def test_an_unclosed_quotation_mark_does_not_swallow_the_page() -> None:
    assert "b" * LONGEST_QUOTE in readable(f'a<p title="x>{"b" * LONGEST_QUOTE}<p title="y">c')


@given(st.text(alphabet="<>/!-'\"= apre&;#x1\n"))
def test_any_html_can_be_read(page: str) -> None:
    readable(page, "http://example.org")


@pytest.mark.parametrize(
    "piece",
    [
        "<!--",
        "<a ",
        "<a '",
        '<a "',
        "<",
        "</",
        "<script",
        "<script>",
        "<pre>",
        "<a href=",
        "&",
        "<!",
        "<p>",
        "> ",
    ],
)
def test_hostile_html_is_read_in_linear_time(piece: str) -> None:
    def seconds(length: int) -> float:
        page = piece * (length // len(piece))
        start = time.process_time()
        readable(page)
        return time.process_time() - start

    # Quadratic time would be a hundred times as long.
    assert seconds(500_000) < 30 * max(seconds(50_000), 0.01)


PIECES = [
    "<", "<a", "<a ", "</", "<a>", "</a>", "<p>", "<!", "<?", "<!---->", '<a href="', "<script>",
    "<SCRIPT>x</",
    "<script></script>", "<a href=x>", "<a href=http://x>y</a>", "<pre>", "</td>", "<li>", "&", "&amp;", " ",
    "\n",
    "<img alt='", '"', '<a "', "<a '\"", "<br>", "< ", "a<b>",
]  # fmt: skip


@pytest.mark.parametrize("piece", PIECES)
def test_the_largest_html_page_is_read_in_a_bounded_number_of_steps(piece: str) -> None:
    """The time of a step depends on the length of its piece, and the number of steps is limited."""
    steps = 0

    def check() -> None:
        nonlocal steps
        steps += CHECKED_EVERY

    began = time.process_time()
    readable(piece * (LARGEST_BODY // len(piece)), "http://example.org/", check)
    assert steps <= MOST_TOKENS + CHECKED_EVERY
    assert time.process_time() - began < 30, "far longer than it takes"


def test_many_less_than_signs_are_one_text() -> None:
    checks: list[None] = []
    assert len(readable("<" * LARGEST_BODY, check=lambda: checks.append(None))) == LARGEST_BODY
    assert len(checks) == 1
    assert readable("1 < 2 <3 <= 4 <<b>x</b>>") == "1 < 2 <3 <= 4 <x>"


async def test_cancelling_a_conversion_ends_its_thread() -> None:
    ended = threading.Event()

    def read() -> None:
        try:
            while True:
                readable("<p>" * 5000, check=trio.from_thread.check_cancelled)
        finally:
            ended.set()

    with trio.move_on_after(0.2):
        await trio.to_thread.run_sync(read, abandon_on_cancel=True)
    with trio.fail_after(30):
        await trio.to_thread.run_sync(ended.wait)
