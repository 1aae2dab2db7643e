"""From HTML to text that one can read, links kept. Pure.

A page may be written to be hard to take apart. So this goes through it once, from the beginning to the end,
and never looks for anything twice: Python's own parser takes the square of the length for some pages. It
does not know all of HTML, and need not: what is no tag it knows is passed over.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Iterator
from urllib.parse import urljoin, urlsplit

MOST_TOKENS = 400_000
CHECKED_EVERY = 1000
LONGEST_QUOTE = 4000
"""Characters in which a quotation mark within a tag has to find its partner."""

_BEGINNING = re.compile(r"<(?=[a-zA-Z!?/])")
"""A `<` with anything else behind it is text, as are thousands of them in a row."""
_NAME = re.compile(r"/?[a-zA-Z][a-zA-Z0-9:-]*")
_IN_A_TAG = re.compile(r"[\"'>]")
_ATTRIBUTE = re.compile(r"""(?<![^\s"'/])(href|alt)\s*=\s*("[^"]*"|'[^']*'|[^\s"'>]+)""", re.IGNORECASE)
_SILENT = {"script", "style", "template", "svg", "math", "iframe", "object", "canvas", "textarea", "select"}
"""Of no use to a reader, with all that is in them."""
_BLOCKS = {
    "p", "div", "section", "article", "header", "footer", "main", "aside", "nav", "ul", "ol", "dl", "dt",
    "dd", "table", "tr", "form", "fieldset", "figure", "figcaption", "blockquote", "address", "details",
    "summary", "title", "body", "hr",
}  # fmt: skip
_APART = {"p", "ul", "ol", "table", "blockquote"}
_HEADINGS = {f"h{level}": "#" * level + " " for level in range(1, 7)}


def readable(page: str, base: str = "", check: Callable[[], object] = lambda: None) -> str:
    """What a person would read, headings and lists marked, links as [text](address). `check` is called
    again and again, for no thread can be cancelled from outside: what it raises ends the work. A page of more
    than `MOST_TOKENS` tags and texts is read up to there."""
    text: list[str] = []
    link, link_at, in_pre = "", 0, 0
    for number, (tag, what) in enumerate(_tokens(page)):
        if number % CHECKED_EVERY == 0:
            check()
        if number == MOST_TOKENS:
            text.append("\n\n[The page goes on.]")
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
    """Tags, by their name in small letters and with their text; and what stands between them."""
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
            at = _behind(page, "-->", start + 4)
            continue
        found = _NAME.match(page, start + 1)
        at = _end_of_tag(page, start + 1)
        name = found[0].lower() if found else "!"
        if name in _SILENT and page[at - 2 : at] != "/>":
            closing = re.compile(f"</{name}", re.IGNORECASE).search(page, at)
            at = _end_of_tag(page, closing.start() + 1) if closing else len(page)
        else:
            yield name, page[start:at]


def _behind(page: str, mark: str, at: int) -> int:
    found = page.find(mark, at)
    return found + len(mark) if found >= 0 else len(page)


def _end_of_tag(page: str, at: int) -> int:
    """Behind the `>` that ends a tag, which is none within quotation marks."""
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
    """Where a link leads, if that is a page."""
    try:
        address = urljoin(base, text) if text and not text.startswith("#") else ""
        urlsplit(address)
    except ValueError:
        return ""
    return address.replace(" ", "%20") if address.startswith(("http://", "https://")) else ""


def _tidy(text: str) -> str:
    """Without spaces at the ends of lines, and with an empty line where there were many."""
    lines: list[str] = []
    in_pre = False
    for line in text.split("\n"):
        in_pre ^= line.strip() == "```"
        line = line.rstrip() if in_pre else " ".join(line.split())
        if line or (lines and lines[-1]):
            lines.append(line)
    return "\n".join(lines).strip()
