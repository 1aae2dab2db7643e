"""Tables of Markdown as text with aligned columns, for platforms that have none. Pure."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Sequence

from markdown_it.token import Token


def aligned(tokens: Sequence[Token]) -> Iterator[str]:
    """Yield the lines of the table at the head of the tokens."""
    rows: list[list[str]] = []
    for token in tokens:
        if token.type == "table_close":
            break
        if token.type == "tr_open":
            rows.append([])
        elif token.type == "inline":
            rows[-1].append(" ".join(_plain(token).split()).replace("`", "'"))
    widths = [max(map(_width, column)) for column in zip(*rows, strict=True)]
    for number, row in enumerate(rows):
        cells = (cell + " " * (width - _width(cell)) for cell, width in zip(row, widths, strict=True))
        yield " | ".join(cells).rstrip()
        if number == 0:
            yield "-+-".join("-" * width for width in widths)


def _plain(token: Token) -> str:
    """Return the text of a cell without its markup."""
    if token.children is None:
        return token.content
    return "".join(" " if child.type.endswith("break") else _plain(child) for child in token.children)


def _width(text: str) -> int:
    """Return the number of columns that a text takes."""
    return sum(2 if unicodedata.east_asian_width(one) in "WF" else 1 for one in text)
