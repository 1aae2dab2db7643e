"""Markdown of models as the content of a Matrix message."""

from __future__ import annotations

import re
from html import unescape

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_platforms.matrix.formatting import content_of, to_html
from hermes_trio.platform import Refused


@pytest.mark.parametrize(
    ("markdown", "html"),
    [
        ("**bold** `code`", "<p><strong>bold</strong> <code>code</code></p>"),
        ("<b>&", "<p>&lt;b&gt;&amp;</p>"),
        ("![cat](https://c.at/1.png)", '<p><a href="https://c.at/1.png">🖼 cat</a></p>'),
        ("[a](https://b.c)", '<p><a href="https://b.c">a</a></p>'),
        ("[a](file:///etc/passwd)", "<p>[a](file:///etc/passwd)</p>"),
        ("```py\nx < 1", '<pre><code class="language-py">x &lt; 1</code></pre>'),
    ],
)
def test_an_element_is_the_html_that_clients_show(markdown: str, html: str) -> None:
    assert to_html(markdown).replace("\n</code>", "</code>") == html


@given(st.text(alphabet="a<>&\"'`[]()!*_~|\\\n -#:/", max_size=60))
def test_no_text_of_a_model_becomes_html_of_its_own(markdown: str) -> None:
    assert not re.search(
        r"<(?:script|img|iframe|style|a (?!href=\"(?:https?|mailto|matrix):))", to_html(markdown)
    )


@given(st.text(min_size=1, max_size=40))
def test_a_preformatted_part_is_shown_exactly(code: str) -> None:
    text = f"**Run**\n{code}\n<because>"
    content = content_of(text, ((8, 8 + len(code)),))
    formatted = str(content["formatted_body"])
    assert formatted.startswith("**Run**<br>")
    assert unescape(formatted).count(code) >= 1
    assert content["body"] == text


def test_a_text_whose_html_is_too_long_goes_without_and_an_exact_one_is_refused() -> None:
    text = "&" * 12_000
    assert content_of(text) == {"body": text}
    with pytest.raises(Refused):
        content_of(text, ((0, 10),))
