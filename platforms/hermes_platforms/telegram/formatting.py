"""Conversion of the Markdown of models to MarkdownV2, which Telegram accepts only without any syntax error.

A text is parsed by a Markdown parser and written anew, so the result is well formed for every input, also for
an incomplete answer whose last fence is open. Elements that Telegram does not have become the most similar
ones: headings are bold, tables are preformatted, a quote in a list starts with a bar.

| Rule of Telegram | Consequence |
|---|---|
| `__` is underline, matched first | an empty bold separates two italics, as Telegram's manual suggests |
| an open mark is closed by the next mark of its kind | no italic in italic, no bold in bold |
| a quote consists of lines that begin with `>` | code in a quote is marked line by line |
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from markdown_it import MarkdownIt
from markdown_it.tree import SyntaxTreeNode

from hermes_trio.platform import Preformatted

_RESERVED = re.compile(r"([_*\[\]()~`>#+\-=|{}.!\\])")
_IN_CODE = re.compile(r"([`\\])")
_IN_URL = re.compile(r"([)\\])")
LANGUAGE = re.compile(r"[\w+#.-]{1,40}")
_ITALIC_ENDS = re.compile(r"(?<!\\)(?:\\\\)*_\Z")
ADDRESS = re.compile(r"(?i)(?:https?|tg)://\S")

_PARSER = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])


@dataclass(frozen=True, slots=True)
class _Place:
    """Position in the document: indentation and open elements."""

    indent: str = ""
    quoted: bool = False
    open: frozenset[str] = frozenset()

    def within(self, kind: str) -> _Place:
        return replace(self, open=self.open | {kind})


def to_markdown_v2(text: str, preformatted: Preformatted = ()) -> str:
    """Return a Markdown text as MarkdownV2; blank if it shows nothing. `preformatted` parts bypass the
    parser, so nothing in them becomes markup."""
    if not preformatted:
        return _blocks(SyntaxTreeNode(_PARSER.parse(text)).children, _Place())
    written, at = "", 0
    for start, end in preformatted:
        written += _between(text[at:start]) + _exact(text, start, end)
        at = end
    return written + _between(text[at:])


def _between(text: str) -> str:
    """Convert Markdown between preformatted parts. The white space around it stays, except the indentation of
    its first line, because a block of Telegram begins at the start of a line."""
    inner = text.strip()
    if not inner:
        return text
    before, _, after = text.partition(inner)
    lines = before[: before.rfind("\n") + 1]
    return f"{lines}{to_markdown_v2(inner)}{after}"


def _exact(text: str, start: int, end: int) -> str:
    """Return a preformatted part: a block if it consists of whole lines, else code within its line."""
    code = _in_code(text[start:end])
    return f"```\n{code}```" if is_block(text, start, end) else f"`{code}`"


def is_block(text: str, start: int, end: int) -> bool:
    """Return True if a part of a text consists of whole lines."""
    return text[start - 1 : start] in ("", "\n") and text[end : end + 1] in ("", "\n")


def escaped(text: str) -> str:
    """Escape all markup of a text."""
    return _RESERVED.sub(r"\\\1", text)


# --- blocks: the first line is returned without indentation; the caller has written that ---


def _blocks(nodes: Iterable[SyntaxTreeNode], place: _Place, between: str = "\n\n") -> str:
    blocks = (_BLOCKS[node.type](node, place) for node in nodes)
    return f"{between}{place.indent}".join(block for block in blocks if block.strip())


def _paragraph(node: SyntaxTreeNode, place: _Place) -> str:
    return _inlines(node.children, place)


def _heading(node: SyntaxTreeNode, place: _Place) -> str:
    return _marked("*", _inlines(node.children, place.within("strong")))


def _fence(node: SyntaxTreeNode, place: _Place) -> str:
    language = LANGUAGE.match(node.info.strip()) if node.type == "fence" else None
    return _preformatted(node.content.rstrip("\n"), place, language[0] if language else "")


def _preformatted(code: str, place: _Place, language: str = "") -> str:
    if not code.strip():
        return ""
    if place.quoted:
        lines = code.split("\n")
        return f"\n{place.indent}".join(f"`{_in_code(line)}`" if line.strip() else "" for line in lines)
    return f"```{language}\n{_in_code(code)}\n```"


def _in_code(code: str) -> str:
    return _IN_CODE.sub(r"\\\1", code)


def _quote(node: SyntaxTreeNode, place: _Place) -> str:
    if place.quoted:
        return _blocks(node.children, place)
    if place.indent:  # an indented `>` is no quote for Telegram
        lines = _blocks(node.children, replace(place, indent="", quoted=True)).split("\n")
        return f"\n{place.indent}".join(f"│ {line}" for line in lines)
    inner = _blocks(node.children, replace(place, quoted=True))
    return "\n".join(f">{line}" for line in inner.split("\n")) if inner else ""


def _list(node: SyntaxTreeNode, place: _Place) -> str:
    number, is_numbered = int(node.attrs.get("start", 1)), node.type == "ordered_list"
    tight = all(
        child.hidden for item in node.children for child in item.children if child.type == "paragraph"
    )
    between = "\n" if tight else "\n\n"
    items = []
    for place_in_list, item in enumerate(node.children):
        mark = f"{number + place_in_list}\\. " if is_numbered else "• "
        inner = replace(place, indent=place.indent + " " * (3 if is_numbered else 2))
        items.append(mark + _blocks(item.children, inner, between))
    return f"{between}{place.indent}".join(items)


def _rule(node: SyntaxTreeNode, place: _Place) -> str:
    return "———"


def _table(node: SyntaxTreeNode, place: _Place) -> str:
    rows = [
        [" ".join(_plain(cell).split()) for cell in row.children]
        for part in node.children
        for row in part.children
    ]
    widths = [max(map(_width, column)) for column in zip(*rows, strict=True)]
    lines = [_row(row, widths) for row in rows]
    lines.insert(1, "-+-".join("-" * width for width in widths))
    return _preformatted("\n".join(lines), place)


def _row(cells: Sequence[str], widths: Sequence[int]) -> str:
    padded = (cell + " " * (width - _width(cell)) for cell, width in zip(cells, widths, strict=True))
    return " | ".join(padded).rstrip()


def _width(text: str) -> int:
    """How many columns this takes where every letter takes as many."""
    return sum(2 if unicodedata.east_asian_width(one) in "WF" else 1 for one in text)


def _plain(node: SyntaxTreeNode) -> str:
    if node.type in ("text", "code_inline"):
        return node.content
    if node.type in ("softbreak", "hardbreak"):
        return " "
    return "".join(map(_plain, node.children))


# --- within a line ---


def _inlines(nodes: Iterable[SyntaxTreeNode], place: _Place) -> str:
    written = ""
    for node in nodes:
        piece = _INLINES[node.type](node, place)
        if piece.startswith("_") and _ITALIC_ENDS.search(written):
            written += "**"
        written += piece
    return written


def _inline(node: SyntaxTreeNode, place: _Place) -> str:
    return _inlines(node.children, place)


def _text(node: SyntaxTreeNode, place: _Place) -> str:
    return escaped(node.content)


def _break(node: SyntaxTreeNode, place: _Place) -> str:
    return f"\n{place.indent}"


def _code(node: SyntaxTreeNode, place: _Place) -> str:
    return _marked("`", _in_code(node.content))


def _styled(node: SyntaxTreeNode, place: _Place) -> str:
    inner = _inlines(node.children, place.within(node.type))
    return inner if node.type in place.open else _marked(_MARKS[node.type], inner)


def _link(node: SyntaxTreeNode, place: _Place) -> str:
    return _linked(_inlines(node.children, place.within("link")), str(node.attrs.get("href", "")), place)


def _image(node: SyntaxTreeNode, place: _Place) -> str:
    return _linked(escaped(image_label(node)), str(node.attrs.get("src", "")), place)


def image_label(node: SyntaxTreeNode) -> str:
    """Return the text that is shown in place of an image."""
    return f"🖼 {_plain(node)}".strip()


def _linked(shown: str, url: str, place: _Place) -> str:
    shown = shown if shown.strip() else escaped(url)
    if not url or "link" in place.open or shown == escaped(url):
        return shown
    if not ADDRESS.match(url):  # Telegram would drop the address, so it is shown as text
        return f"{shown} \\({escaped(url)}\\)"
    url = _IN_URL.sub(r"\\\1", url)
    return f"[{shown}]({url})"


def _marked(mark: str, inner: str) -> str:
    return f"{mark}{inner}{mark}" if inner.strip() else inner


_Write = Callable[[SyntaxTreeNode, _Place], str]

_MARKS = {"strong": "*", "em": "_", "s": "~"}

_BLOCKS: Mapping[str, _Write] = {
    "paragraph": _paragraph,
    "heading": _heading,
    "fence": _fence,
    "code_block": _fence,
    "blockquote": _quote,
    "bullet_list": _list,
    "ordered_list": _list,
    "hr": _rule,
    "table": _table,
}

_INLINES: Mapping[str, _Write] = {
    "inline": _inline,
    "text": _text,
    "softbreak": _break,
    "hardbreak": _break,
    "code_inline": _code,
    "strong": _styled,
    "em": _styled,
    "s": _styled,
    "link": _link,
    "image": _image,
}
