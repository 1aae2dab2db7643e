"""The pages of the documentation as values: their blocks, their tables, and the files in them."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from markdown_it import MarkdownIt

from docs.made import PAGES as MADE_PAGES
from hermes_trio.tools.tool import ENTRY_POINTS

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.glob("**/*.md"))
BY_HAND = [path for path in PAGES if str(path.relative_to(DOCS)) not in MADE_PAGES]
README = ROOT / "README.md"
OTHER_PAGES = [
    README,
    *(ROOT / name for name in ("CONTRIBUTING.md", "SECURITY.md", "RELEASING.md", "platforms/README.md")),
]
"""Pages outside of the site."""


@dataclass(frozen=True)
class Block:
    """A fenced block of a page."""

    page: Path
    line: int
    language: str
    text: str
    output: str | None
    """The block of output that follows directly."""

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def page(name: str) -> str:
    return (DOCS / name).read_text("utf-8")


@cache
def blocks() -> list[Block]:
    """Return every fenced block of the pages and of the README."""
    found = []
    for path in (*PAGES, README):
        tokens = MarkdownIt().parse(path.read_text("utf-8"))
        for index, token in enumerate(tokens):
            if token.type == "fence" and token.map is not None:
                after = tokens[index + 1] if index + 1 < len(tokens) else None
                output = after.content if after and after.type == "fence" and after.info == "text" else None
                found.append(Block(path, token.map[0] + 1, token.info, token.content, output))
    return found


def titled(path: Path) -> dict[str, str]:
    """Return the files of a page: the blocks that have a title."""
    found = (
        (re.search(r'title="([^"]+)"', block.language), block) for block in blocks() if block.page == path
    )
    return {match[1]: block.text for match, block in found if match is not None}


def cells(name: str, heading: str) -> Iterator[list[str]]:
    """Return the rows of the first table below a heading."""
    lines = iter(page(name).partition(f"## {heading}\n")[2].splitlines())
    for line in lines:
        if line.startswith("## "):
            return
        if line.startswith("| "):
            yield [cell.strip() for cell in line.strip("|").split("|")]


def entry_points() -> set[str]:
    """Return the groups of entry points, which are written like modules."""
    with open(ROOT / "pyproject.toml", "rb") as file:
        return {*tomllib.load(file)["project"]["entry-points"], ENTRY_POINTS}
