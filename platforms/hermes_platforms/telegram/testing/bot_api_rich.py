"""Rich messages as the Bot API reads them from HTML: the text that people see, or the reason of a refusal.

This parser checks the output of `rich`, so it shares no code with it. Blocks are on lines of their own, list
items begin with their label, the cells of a table are separated by tabs. Buttons and media are noted: the
server would show or fetch them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from html.parser import HTMLParser

from .bot_api_entities import CannotParse, Entity, utf16_length

LONGEST = 32_768
MOST_BLOCKS = 500
MOST_LEVELS = 16
MOST_COLUMNS = 20

_INLINE = {"b", "strong", "i", "em", "u", "ins", "s", "strike", "del", "code", "mark", "sub", "sup", "a"}
_INLINE |= {"tg-spoiler", "tg-reference", "tg-time", "tg-math", "tg-emoji", "tg-button"}
_LEAVES = {"p", "h1", "h2", "h3", "h4", "h5", "h6", "pre", "footer", "tr", "li"}
_GROUPS = {"ul", "ol", "table", "blockquote", "aside", "details", "figure", "tg-button-row", "tg-collage"}
_VOID = {"br", "hr", "img", "input", "tg-map"}
_CELLS = {"td", "th"}
_MEDIA = {"img", "video", "audio", "tg-document"}
_TAGS = _INLINE | _LEAVES | _GROUPS | _VOID | _CELLS | _MEDIA | {"summary", "figcaption", "cite", "caption"}
_NAMED = {"lt", "gt", "amp", "quot", "apos", "nbsp", "hellip", "mdash", "ndash"}
_NAMED |= {"lsquo", "rsquo", "ldquo", "rdquo"}
_REFERENCE = re.compile(r"&([A-Za-z]\w*);")


def parse_rich_html(html: str) -> tuple[str, list[Entity]]:
    """Return the visible text and its formatted parts, each named by its tag. Raises `CannotParse`."""
    for name in _REFERENCE.findall(html):
        if name not in _NAMED:
            raise CannotParse(f"Unsupported named entity &{name};")
    reader = _Reader()
    reader.feed(html)
    reader.close()
    if reader.open:
        raise CannotParse(f"Can't find end tag corresponding to start tag {reader.open[-1][0]}")
    text = "".join(reader.shown).strip("\n")
    if not text.strip() or len(text) > LONGEST:
        raise CannotParse("RICH_MESSAGE_CONTENT_REQUIRED" if not text.strip() else "RICH_MESSAGE_TOO_LONG")
    if reader.blocks > MOST_BLOCKS:
        raise CannotParse("RICH_MESSAGE_TOO_MANY_BLOCKS")
    return text, reader.entities


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.shown: list[str] = []
        self.open: list[tuple[str, int]] = []
        self.entities: list[Entity] = []
        self.blocks = 0
        self._units = 0
        self._columns = 0
        self._items: list[int | None] = []
        """The number of the next item of each open list; None without numbers."""

    def handle_starttag(self, tag: str, attrs: Sequence[tuple[str, str | None]]) -> None:
        if tag not in _TAGS:
            raise CannotParse(f'Unsupported start tag "{tag}"')
        values = dict(attrs)
        if tag in _MEDIA:
            self.entities.append(Entity(tag, self._units, 0, values.get("src")))
        if tag == "br":
            self._show("\n")
        if tag in _LEAVES or tag in _GROUPS or tag == "hr":
            self.blocks += 1
            self._begin_line()
        if tag in ("ul", "ol"):
            self._items.append(int(values.get("start") or 1) if tag == "ol" else None)
        if tag == "li":
            self._label()
        if tag == "tr":
            self._columns = 0
        if tag in _CELLS:
            self._columns += 1
            if self._columns > MOST_COLUMNS:
                raise CannotParse("RICH_MESSAGE_TOO_MANY_COLUMNS")
            self._show("\t" if self._columns > 1 else "")
        if tag not in _VOID:
            self.open.append((tag, self._units))
            if len(self.open) > MOST_LEVELS:
                raise CannotParse("RICH_MESSAGE_TOO_DEEP")

    def handle_endtag(self, tag: str) -> None:
        if tag in _VOID:
            return
        if not self.open or self.open[-1][0] != tag:
            raise CannotParse(f'Unexpected end tag "{tag}"')
        _, began = self.open.pop()
        self.entities.append(Entity(tag, began, self._units - began))
        if tag in ("ul", "ol"):
            self._items.pop()
        if tag in _LEAVES or tag in _GROUPS:
            self._begin_line()

    def handle_data(self, data: str) -> None:
        self._show(data)

    def _label(self) -> None:
        if not self._items:
            raise CannotParse('Unexpected start tag "li"')
        number = self._items[-1]
        self._show("• " if number is None else f"{number}. ")
        if number is not None:
            self._items[-1] = number + 1

    def _begin_line(self) -> None:
        """Begin a line, unless a label is before it or nothing is on the line."""
        line = "".join(self.shown).rpartition("\n")[2] if self.shown else ""
        if line and not re.fullmatch(r"(?:• |\d+\. )+", line):
            self._show("\n")

    def _show(self, text: str) -> None:
        self.shown.append(text)
        self._units += utf16_length(text)
