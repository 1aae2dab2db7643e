"""Markdown as MarkdownV2: Telegram accepts the result for every text, and it has the same formatting."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hermes_platforms.telegram.formatting import escaped, to_markdown_v2
from hermes_platforms.telegram.testing.bot_api_entities import CannotParse, Entity, parse_markdown_v2

LONG = """\
# Title *slanted* **bold**
Some **bold _and slanted_** text, `code` and ~~nothing~~.

1. one
   - nested `x`
     > said once
2. two
   ```py
   x = `1`
   ```

> quoted **b**
> ```
> code
> ```

| a | bb |
|---|----|
| 1 | 漢字 |

***
```
never closed
"""

bounded = settings(max_examples=300)


def seen(markdown: str) -> str:
    return parse_markdown_v2(to_markdown_v2(markdown))[0]


def looks(markdown: str) -> list[tuple[str, str]]:
    """Return the kind and the text of each entity."""
    text, entities = parse_markdown_v2(to_markdown_v2(markdown))
    units = text.encode("utf-16-le")
    return [
        (one.kind, units[2 * one.offset : 2 * (one.offset + one.length)].decode("utf-16-le"))
        for one in entities
    ]


@pytest.mark.parametrize(
    ("markdown", "marked"),
    [
        ("**bold**", [("bold", "bold")]),
        ("*slanted*", [("italic", "slanted")]),
        ("~~gone~~", [("strikethrough", "gone")]),
        ("`co*de`", [("code", "co*de")]),
        ("`` a`b\\ ``", [("code", "a`b\\")]),
        ("# Heading **x**", [("bold", "Heading x")]),
        ("***both***", [("italic", "both"), ("bold", "both")]),
        ("*a _b_*", [("italic", "a b")]),
        ("**a __b__**", [("bold", "a b")]),
        ("*a*_b_", [("italic", "a"), ("italic", "b")]),
        (r"*a\\*_b_", [("italic", "a\\"), ("italic", "b")]),
        (r"*a\_*_b_", [("italic", "a_"), ("italic", "b")]),
        ("**x *a*_b_ y**", [("bold", "x a"), ("italic", "a"), ("bold", "b y"), ("italic", "b")]),
        ("😀 **bold**", [("bold", "bold")]),
        ("```py\nx = `1` \\ 2\n```", [("pre", "x = `1` \\ 2")]),
        ("    indented", [("pre", "indented")]),
        ("> said\n> twice", [("blockquote", "said\ntwice")]),
        ("snake_case_name and 2 * 3 * 4 ~ 5", []),
        ("<b>no HTML</b> & so on!", []),
    ],
)
def test_markup_becomes_entities_of_its_kind(markdown: str, marked: list[tuple[str, str]]) -> None:
    assert sorted(looks(markdown)) == sorted(marked)


@pytest.mark.parametrize(
    ("markdown", "shown"),
    [
        ("one\ntwo\n\nthree", "one\ntwo\n\nthree"),
        ("- a\n- b\n  - c\n  - d\n- e", "• a\n• b\n  • c\n  • d\n• e"),
        ("3. a\n4. b\n   1. c", "3. a\n4. b\n   1. c"),
        ("- a\n\n- b", "• a\n\n• b"),
        ("- > said\n  > twice", "• │ said\n  │ twice"),
        ("> said\n>\n> ```\n> a = 1\n> b\n> ```", "said\n\na = 1\nb"),
        ("---", "———"),
        ("[here](docs/a_b.md)", "here (docs/a_b.md)"),
        ("![cat](http://x.org/c.png)", "🖼 cat"),
        ("| a | bb |\n|---|:--|\n| 漢 | **2** |", "a  | bb\n---+---\n漢 | 2"),
        ("1 < 2 > 1 & _x_y", "1 < 2 > 1 & _x_y"),
    ],
)
def test_an_element_that_telegram_lacks_becomes_a_similar_text(markdown: str, shown: str) -> None:
    assert seen(markdown) == shown


def test_a_link_keeps_its_address() -> None:
    [link] = parse_markdown_v2(to_markdown_v2("[ab](http://x.org/a_(b))"))[1]
    assert link == Entity("text_link", 0, 2, url="http://x.org/a_(b)")


def test_an_address_of_a_script_or_a_file_becomes_no_link() -> None:
    assert all(kind != "text_link" for kind, _ in looks("[x](javascript:alert(1)) [y](file:///etc/passwd)"))


@pytest.mark.parametrize("end", range(0, len(LONG), 3))
def test_every_beginning_of_an_answer_is_well_formed(end: int) -> None:
    seen(LONG[:end] + " ▉")


MARKS = [
    *"*_~`|[]()<>!#-+=.{}\\ \n\t",
    "**",
    "__",
    "~~",
    "```",
    "](",
    "http://x.y",
    "\n\n",
    "    ",
    "|---|\n",
]
WORDS = ["word", "1", "1. ", "- ", "> ", "# ", "<b>", "&amp;", "é", "😀", "漢", "\u200d"]
PIECES = st.lists(st.sampled_from([*MARKS, *WORDS]), max_size=50).map("".join)


@bounded
@given(PIECES | st.text(max_size=60))
def test_every_text_is_well_formed(markdown: str) -> None:
    seen(markdown)


@bounded
@given(st.lists(st.sampled_from([*"*_~` \n#+-.!>", "**", "~~", "word", "😀", "1. ", "    "])).map("".join))
def test_formatting_loses_no_word(markdown: str) -> None:
    # Except the name of a language after an opening fence.
    if "```" not in markdown and "~~~" not in markdown:
        assert re.findall("word|😀", seen(markdown)) == re.findall("word|😀", markdown)


@bounded
@given(st.text(max_size=60))
def test_an_escaped_text_has_no_markup(text: str) -> None:
    text = re.sub(r"[\r\ud800-\udfff]", "", text)
    assert parse_markdown_v2(escaped(text)) == (text.strip(), [])


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        *((one, f"Character '{one}' is reserved") for one in "])#+-=|{}.!("),
        ("a > b", "Character '>' is reserved"),
        ("🏟 🏟_abacaba", "Can't find end of Italic entity at byte offset 9"),
        ("🏟 🏟_abac * asd ", "Can't find end of Bold entity at byte offset 15"),
        ("🏟 🏟`", "Can't find end of Code entity at byte offset 9"),
        ("🏟 🏟```", "Can't find end of Pre entity at byte offset 9"),
        ("🏟 🏟__🏟 🏟_", "Can't find end of Italic entity at byte offset 20"),
        ("🏟 🏟_🏟 🏟__", "Can't find end of Underline entity at byte offset 19"),
        ("🏟 🏟```🏟 🏟`", "Can't find end of Code entity at byte offset"),
        ("[a](b", "Can't find end of a URL at byte offset 4"),
    ],
)
def test_the_simulated_parser_refuses_what_the_server_refuses(text: str, problem: str) -> None:
    with pytest.raises(CannotParse, match=re.escape(problem)):
        parse_markdown_v2(text)
