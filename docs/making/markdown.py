"""Pieces of Markdown that the made pages share."""

from __future__ import annotations

from collections.abc import Iterable, Iterator


def cell(text: str) -> str:
    """Return text for a cell of a table."""
    return " ".join(text.split()).replace("|", "\\|")


def code(text: str) -> str:
    return f"`{text}`" if text else ""


def table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> Iterator[str]:
    """Yield the lines of a table; nothing if it has no rows."""
    lines = [f"| {' | '.join(map(cell, row))} |" for row in rows]
    if lines:
        yield f"| {' | '.join(head)} |"
        yield f"|{'|'.join('---' for _ in head)}|"
        yield from lines
        yield ""


def escaped(text: str) -> str:
    """Return text whose `<name>` outside of code is no HTML."""
    parts = text.split("`")
    return "`".join(part.replace("<", "&lt;") if index % 2 == 0 else part for index, part in enumerate(parts))
