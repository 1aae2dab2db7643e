"""Conversion of the Markdown of models to lines of IRC.

IRC has lines, and codes for bold, italic and struck text; every client shows them or leaves them out. All
other markup becomes what people on IRC write themselves: code stays in its backticks, a block of code is its
lines, a list has its dashes, a link is followed by its address, a table has bars. Empty lines cannot be sent
and are left out. A control character of the text itself is dropped, because it would be a code, or the mark
of a request to the client (CTCP).

Each line of a preformatted part has a mark, so that no line of a command looks like words of the gateway.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from markdown_it import MarkdownIt
from markdown_it.token import Token
from markdown_it.tree import SyntaxTreeNode

from hermes_trio.platform import Preformatted

from .splitting import BOLD, CODES, EXACT, ITALIC, STRIKE

_PARSER = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029]")
_OPEN_OR_CLOSE = {"strong": BOLD, "em": ITALIC, "s": STRIKE}
_NO_CODES = str.maketrans("", "", CODES)


def to_irc(text: str, preformatted: Preformatted = (), *, codes: bool = True) -> list[str]:
    """Return a Markdown text as lines; none for a text that shows nothing. `preformatted` parts bypass the
    parser. Without `codes` nothing is bold or italic."""
    text = _CONTROLS.sub(" ", text)  # one for one: the places of the parts stay
    written, at = [], 0
    for start, end in preformatted:
        part, begins_line = text[start:end], text[start - 1 : start] in ("", "\n")
        written += [_between(text[at:start], codes), _marked(part) if begins_line else part]
        at = end
    written.append(_between(text[at:], codes))
    lines = "".join(written).replace("\t", "    ").split("\n")
    if preformatted:
        return [line or " " for line in lines]
    return [line for line in lines if line.translate(_NO_CODES).strip()]


def _marked(text: str) -> str:
    return "\n".join(EXACT + line for line in text.split("\n"))


def _between(text: str, codes: bool) -> str:
    """Convert Markdown between preformatted parts. The white space around it stays."""
    inner = text.strip()
    if not inner:
        return text
    before, _, after = text.partition(inner)
    shown = "\n".join(_blocks(SyntaxTreeNode(_PARSER.parse(inner)).children))
    return f"{before}{shown if codes else shown.translate(_NO_CODES)}{after}"


def _blocks(nodes: Iterable[SyntaxTreeNode]) -> Iterator[str]:
    for node in nodes:
        yield from _block(node)


def _block(node: SyntaxTreeNode) -> Iterator[str]:
    match node.type:
        case "paragraph":
            yield from _inline(node).split("\n")
        case "heading":
            yield _whole(BOLD, _inline(node).replace(BOLD, ""))
        case "fence" | "code_block":
            yield from node.content.rstrip("\n").split("\n")
        case "blockquote":
            yield from (f"> {line}" for line in _blocks(node.children))
        case "bullet_list" | "ordered_list":
            yield from _list(node)
        case "table":
            for part in node.children:
                for row in part.children:
                    cells = " | ".join(_inline(cell) for cell in row.children)
                    yield _whole(BOLD, cells.replace(BOLD, "")) if part.type == "thead" else cells
        case "hr":
            yield "———"
        case _:
            yield from _blocks(node.children)


def _list(node: SyntaxTreeNode) -> Iterator[str]:
    number = int(node.attrs.get("start", 1))
    for place, item in enumerate(node.children):
        mark = f"{number + place}. " if node.type == "ordered_list" else "- "
        lines = list(_blocks(item.children)) or [""]
        yield mark + lines[0]
        yield from (" " * len(mark) + line for line in lines[1:])


def _inline(node: SyntaxTreeNode) -> str:
    return "".join(_spans([token for child in node.children for token in child.to_tokens()]))


def _spans(tokens: Sequence[Token]) -> Iterator[str]:
    """Yield the parts of a text. A code of IRC opens and closes, so one within another of its kind is left
    out. A line break within a bold text closes it in this line and opens it in the next."""
    open_: list[str] = []
    links: list[tuple[str, list[str]]] = []
    for token in (inner for one in tokens for inner in (one.children or [one])):
        piece = ""
        name = token.type.removesuffix("_open").removesuffix("_close")
        if code := _OPEN_OR_CLOSE.get(name, ""):
            if token.nesting > 0:
                piece = "" if code in open_ else code
                open_.append(code)
            else:
                open_.remove(code)
                piece = "" if code in open_ else code
        elif token.type == "link_open":
            links.append((str(token.attrs.get("href", "")), []))
            continue
        elif token.type == "link_close":
            address, shown = links.pop()
            piece = _linked("".join(shown), address)
        elif token.type == "image":
            piece = _linked(token.content, str(token.attrs.get("src", "")))
        elif token.type == "code_inline":
            piece = f"`{token.content}`"
        elif token.type in ("softbreak", "hardbreak"):
            codes = "".join(dict.fromkeys(open_))
            piece = f"{codes[::-1]}\n{codes}"
        else:
            piece = token.content
        if links:
            links[-1][1].append(piece)
        else:
            yield piece


def _linked(shown: str, address: str) -> str:
    plain = shown.translate(_NO_CODES)
    if not address or plain in (address, address.removeprefix("mailto:")):
        return shown
    return f"{shown} ({address})" if plain.strip() else address


def _whole(code: str, text: str) -> str:
    return f"{code}{text}{code}" if text.strip() else text
