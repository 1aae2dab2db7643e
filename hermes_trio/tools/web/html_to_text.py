"""Conversion of HTML to readable text with its links. Pure.

A page may be written to be slow to parse. So it is read once, from start to end, and no part is searched
twice: Python's own parser takes quadratic time for some pages. Not all of HTML is supported, and need not be:
unknown tags are skipped.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Iterator
from urllib.parse import urljoin, urlsplit

MOST_TOKENS = 400_000
CHECKED_EVERY = 1000
LONGEST_QUOTE = 4000
"""Characters within which a quotation mark in a tag has to be closed."""

_BEGINNING = re.compile(r"<(?=[a-zA-Z!?/])")
"""A `<` before any other character is text, even thousands of them in a row."""
_NAME = re.compile(r"/?[a-zA-Z][a-zA-Z0-9:-]*")
_IN_A_TAG = re.compile(r"[\"'>]")
_ATTRIBUTE = re.compile(r"""(?<![^\s"'/])(href|alt)\s*=\s*("[^"]*"|'[^']*'|[^\s"'>]+)""", re.IGNORECASE)
_SILENT = {"script", "style", "template", "svg", "math", "iframe", "object", "canvas", "textarea", "select"}
"""Tags that are dropped with their content."""
_BLOCKS = {
    "p", "div", "section", "article", "header", "footer", "main", "aside", "nav", "ul", "ol", "dl", "dt",
    "dd", "table", "tr", "form", "fieldset", "figure", "figcaption", "blockquote", "address", "details",
    "summary", "title", "body", "hr",
}  # fmt: skip
_APART = {"p", "ul", "ol", "table", "blockquote"}
_HEADINGS = {f"h{level}": "#" * level + " " for level in range(1, 7)}


def readable(page: str, base: str = "", check: Callable[[], object] = lambda: None) -> str:
    """Return the text that a person would read, with headings and lists marked and links as [text](address).
    `check` is called regularly and may raise to end the work, because a thread cannot be cancelled from
    outside. Of a page with more than `MOST_TOKENS` tags and texts only the first ones are read."""
    text: list[str] = []
    link, link_at, in_pre = "", 0, 0
    for number, (tag, what) in enumerate(_tokens(page)):
        if number % CHECKED_EVERY == 0:
            check()
        if number == MOST_TOKENS:
            text.append("\n\n[The page is longer.]")
            break
        name = tag.removeprefix("/")
        opens = not tag.startswith("/")
        if not tag:
            text.append(html.unescape(what) if in_pre else re.sub(r"\s+", " ", html.unescape(what)))
        elif name == "a":
            if link and (said := " ".join("".join(text[link_at:]).split())):
                text[link_at:] = [f"[{said}]({link})"]
            address = _attribute(what, "href") if opens else ""
            link = _address(address, base)
            link_at = len(text)
        elif name == "br":
            text.append("\n")
        elif name == "img" and (alt := _attribute(what, "alt")):
            text.append(f"[{alt}]")
        elif name in ("td", "th") and not opens:
            text.append(" | ")
        elif name == "pre":
            in_pre = max(0, in_pre + (1 if opens else -1))
            text.append("\n\n```\n" if opens else "\n```\n\n")
        elif name == "li":
            text.append("\n- " if opens else "\n")
        elif name in _HEADINGS:
            text.append(f"\n\n{_HEADINGS[name]}" if opens else "\n\n")
        elif name in _BLOCKS:
            text.append("\n\n" if name in _APART else "\n")
    return _tidy("".join(text))


def _tokens(page: str) -> Iterator[tuple[str, str]]:
    """Yield tags as their name in lower case and their text, and the texts between them as an empty name and
    the text."""
    at = 0
    while at < len(page):
        found = _BEGINNING.search(page, at)
        if found is None:
            yield "", page[at:]
            return
        start = found.start()
        if start > at:
            yield "", page[at:start]
        if page.startswith("<!--", start):
            at = _after(page, "-->", start + 4)
            continue
        found = _NAME.match(page, start + 1)
        at = _end_of_tag(page, start + 1)
        name = found[0].lower() if found else "!"
        if name in _SILENT and page[at - 2 : at] != "/>":
            closing = re.compile(f"</{name}", re.IGNORECASE).search(page, at)
            at = _end_of_tag(page, closing.start() + 1) if closing else len(page)
        else:
            yield name, page[start:at]


def _after(page: str, mark: str, at: int) -> int:
    found = page.find(mark, at)
    return found + len(mark) if found >= 0 else len(page)


def _end_of_tag(page: str, at: int) -> int:
    """Return the position after the `>` that ends a tag. A `>` within quotation marks does not count."""
    while found := _IN_A_TAG.search(page, at):
        at = found.end()
        if found[0] == ">":
            return at
        partner = page.find(found[0], at, at + LONGEST_QUOTE)
        if partner >= 0:
            at = partner + 1
    return len(page)


def _attribute(tag: str, name: str) -> str:
    for found in _ATTRIBUTE.finditer(tag):
        if found[1].lower() == name:
            return html.unescape(found[2].strip("\"'")).strip()
    return ""


def _address(text: str, base: str) -> str:
    """Return the address of a link, if it is a web page; otherwise an empty text."""
    try:
        address = urljoin(base, text) if text and not text.startswith("#") else ""
        urlsplit(address)
    except ValueError:
        return ""
    return address.replace(" ", "%20") if address.startswith(("http://", "https://")) else ""


def _tidy(text: str) -> str:
    """Return a text without spaces at line ends and with at most one empty line in a row."""
    lines: list[str] = []
    in_pre = False
    for line in text.split("\n"):
        in_pre ^= line.strip() == "```"
        line = line.rstrip() if in_pre else " ".join(line.split())
        if line or (lines and lines[-1]):
            lines.append(line)
    return "\n".join(lines).strip()
