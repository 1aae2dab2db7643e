"""Conversion of the Markdown of models to a rich message of Telegram, which has tables and 32,768 characters.

Telegram also takes Markdown as it is. A model's text is not handed to that parser. It reads HTML in the text,
so a model could write a button whose press approves a command (`<tg-button>`); and it has Telegram's servers
fetch every image, whose address may hold a secret. So the text is parsed here and written anew as HTML, with
every letter escaped. HTML of a model is shown as text, and an image becomes a link.

Telegram refuses a message with too many blocks, levels or columns. For such a text the result is None.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from html import escape

from markdown_it import MarkdownIt
from markdown_it.tree import SyntaxTreeNode

from hermes_trio.platform import Preformatted

from .formatting import ADDRESS, LANGUAGE, image_label, is_block

LONGEST = 32_768
MOST_BLOCKS = 500
MOST_LEVELS = 16
MOST_COLUMNS = 20

_LISTS = ("bullet_list", "ordered_list", "list_item")
_BLOCKS = {"paragraph", "heading", "fence", "code_block", "blockquote", "hr", "table", "tr", *_LISTS}
_PARSER = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])


def needs_rich(text: str) -> bool:
    """Return True if only a rich message shows a text as it is meant: it has a table."""
    return "|" in text and any(token.type == "table_open" for token in _PARSER.parse(text))


def to_rich_html(text: str, preformatted: Preformatted = ()) -> str | None:
    """Return a text as the HTML of a rich message; None if Telegram would refuse it, or it shows nothing. A
    text with `preformatted` parts is shown as it is written."""
    if preformatted:
        return _exact(text, preformatted)
    tree = SyntaxTreeNode(_PARSER.parse(text))
    blocks = sum(node.type in _BLOCKS for node in tree.walk())
    columns = max((len(node.children) for node in tree.walk() if node.type == "tr"), default=0)
    if blocks > MOST_BLOCKS or columns > MOST_COLUMNS or _levels(tree) > MOST_LEVELS:
        return None
    return _written(tree.children) or None


def _exact(text: str, preformatted: Preformatted) -> str:
    """Return a text whose parts between the preformatted ones have no markup."""
    written, at = "", 0
    for start, end in preformatted:
        inner = escape(text[start:end])
        as_block = is_block(text, start, end)
        between = text[at:start].removesuffix("\n") if as_block else text[at:start]
        written += _lines(between) + (f"<pre>{inner}</pre>" if as_block else f"<code>{inner}</code>")
        at = end + (as_block and text[end : end + 1] == "\n")
    return written + _lines(text[at:])


def _lines(text: str) -> str:
    return escape(text).replace("\n", "<br>")


def _levels(node: SyntaxTreeNode) -> int:
    return 1 + max(map(_levels, node.children), default=0)


def _written(nodes: Iterable[SyntaxTreeNode]) -> str:
    return "".join(_NODES[node.type](node) for node in nodes)


def _within(tag: str) -> Callable[[SyntaxTreeNode], str]:
    def write(node: SyntaxTreeNode) -> str:
        inner = _written(node.children)
        return f"<{tag}>{inner}</{tag}>" if inner else ""

    return write


def _paragraph(node: SyntaxTreeNode) -> str:
    inner = _written(node.children)
    return f"<p>{inner}</p>" if inner and not node.hidden else inner


def _heading(node: SyntaxTreeNode) -> str:
    return _within(node.tag)(node)


def _code_block(node: SyntaxTreeNode) -> str:
    code = escape(node.content.rstrip("\n"))
    language = LANGUAGE.match(node.info.strip()) if node.type == "fence" else None
    named = f'<code class="language-{escape(language[0])}">{code}</code>' if language else code
    return f"<pre>{named}</pre>" if code.strip() else ""


def _ordered(node: SyntaxTreeNode) -> str:
    start = int(node.attrs.get("start", 1))
    return f'<ol start="{start}">{_written(node.children)}</ol>'


def _cell(node: SyntaxTreeNode) -> str:
    _, _, side = str(node.attrs.get("style", "")).partition(":")
    align = f' align="{side}"' if side in ("left", "center", "right") else ""
    return f"<{node.tag}{align}>{_written(node.children)}</{node.tag}>"


def _link(node: SyntaxTreeNode) -> str:
    return _linked(_written(node.children), str(node.attrs.get("href", "")))


def _image(node: SyntaxTreeNode) -> str:
    return _linked(escape(image_label(node)), str(node.attrs.get("src", "")))


def _linked(shown: str, url: str) -> str:
    if not ADDRESS.match(url):  # Telegram would refuse or drop the address, so it is shown as text
        return f"{shown} ({escape(url)})" if url else shown
    return f'<a href="{escape(url)}">{shown or escape(url)}</a>'


_NODES: Mapping[str, Callable[[SyntaxTreeNode], str]] = {
    "paragraph": _paragraph,
    "heading": _heading,
    "fence": _code_block,
    "code_block": _code_block,
    "blockquote": _within("blockquote"),
    "bullet_list": _within("ul"),
    "ordered_list": _ordered,
    "list_item": lambda node: f"<li>{_written(node.children)}</li>",
    "hr": lambda node: "<hr/>",
    "table": lambda node: f"<table>{_written(node.children)}</table>",
    "thead": lambda node: _written(node.children),
    "tbody": lambda node: _written(node.children),
    "tr": lambda node: f"<tr>{_written(node.children)}</tr>",
    "th": _cell,
    "td": _cell,
    "inline": lambda node: _written(node.children),
    "text": lambda node: escape(node.content),
    "softbreak": lambda node: "<br>",
    "hardbreak": lambda node: "<br>",
    "code_inline": lambda node: f"<code>{escape(node.content)}</code>",
    "strong": _within("b"),
    "em": _within("i"),
    "s": _within("s"),
    "link": _link,
    "image": _image,
}
