"""Hostile answers: the time to show each of them grows only with its length."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Page

from tests.browser.conftest import People, gateway_in

pytestmark = pytest.mark.timeout(240)

SIZE = 100_000
MOST = 5000
"""Milliseconds, ten times what these texts take. Quadratic work would take minutes."""

UNITS = [
    " ", "\n", " \n", "a", "a ", "*", "**", "_", "__", "~", "~~", "`", "``", "` ", "a`", "[", "]", "![",
    "[a](", "[a]", "(", "<", "<http://", "http://", "http://a ", "\\", "|", "|a", "|-", "|-|\n", "a|b\n",
    "|\n", "-", "- ", "- \n", "- a\n", "- a\n\n", "  - a\n", "1. a\n", "> ", ">", ">\n", "> a\n", "#", "# ",
    "# a #\n", "#\n", "```\n", "~~~\n", "**a", "*a", "_a", "~~a", "*a ", "**a ", "__a ", "~~a ", "`a", "[a",
    "a*", "a**", " *", " **", "---", "-:|", "\t", "\r", '"', "'", "a\n- b\n", "- a\n  ", "[[", '[a](b "',
    "[a](((", "***a", "*a**b", "- a\n \n \n", "- a\n\n  b\n\n",
]  # fmt: skip
SHAPES = {
    "a table and spaces": "|a|b|\n|-|-|\n" + " " * SIZE,
    "a table and spaces on its line": "|a|b|\n|-|-|" + " " * SIZE + "x",
    "a row of spaces": "|a|b|\n|-|-|\n|" + " " * SIZE + "x",
    "a delimiter of spaces": "a|b\n-" + " " * SIZE + "x",
    "bars and dashes": "|" * (SIZE // 2) + "\n" + "|-" * (SIZE // 2),
    "a wide table": "|a" * 2000 + "|\n" + "|-" * 2000 + "|\n" + "|b\n" * 20_000,
    "a heading of spaces": "# a" + " " * SIZE + "x",
    "a heading of signs": "# a " + "#" * SIZE + "x #",
    "empty lines in an item": "- a\n" + "\n" * SIZE + "  x",
    "deep items": "".join("  " * min(deep, 300) + "- a\n" for deep in range(600)),
    "deep quotes": ">" * SIZE,
    "ticks of all lengths": " ".join("`" * count for count in range(1, 440)),
    "comments": "```js\n" + "/*" * 14_000 + "\n```",
    "strings": '```js\n"' + '"\\' * 14_000 + "\n```",
    "long strings": "```py\n" + '""" ' * 7000 + "\n```",
    "a diff": "```diff\n" + "+a\n" * (SIZE // 3) + "\n```",
    "a lazy quote": "> a\n" + "b\n" * (SIZE // 2),
}
PARAGRAPH = 9900
"""Longer paragraphs are not parsed."""

TIMED = """async (text) => {
  const { Markdown } = await import("/page/markdown.js");
  const markdown = new Markdown();
  const began = performance.now();
  markdown.update(text);
  const took = performance.now() - began;
  return [took, markdown.element.querySelectorAll("*").length];
}"""


@pytest.fixture(scope="module")
def page(browser: object, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    with gateway_in(tmp_path_factory.mktemp("gateway")) as gateway:
        people = People(browser, gateway)  # type: ignore[arg-type]
        yield people.somebody()
        people.leave()


def test_no_repeated_piece_freezes_the_page(page: Page) -> None:
    for unit in UNITS:
        took, _ = page.evaluate(TIMED, unit * (SIZE // len(unit)))
        assert took < MOST, unit


def test_no_paragraphs_of_repeated_pieces_freeze_the_page(page: Page) -> None:
    for unit in UNITS:
        took, _ = page.evaluate(TIMED, "\n\n".join(["x " + unit * (PARAGRAPH // len(unit))] * 10))
        assert took < MOST, unit


@pytest.mark.parametrize("text", SHAPES.values(), ids=SHAPES)
def test_no_hostile_shape_freezes_the_page(page: Page, text: str) -> None:
    took, elements = page.evaluate(TIMED, text)
    assert took < MOST
    assert elements <= len(text) + 100, "no more elements than characters"
