"""Conversion of the Markdown of models to Slack's mrkdwn.

| Slack has no | Instead |
|---|---|
| headings | bold |
| emphasis within emphasis of its kind | one mark |
| tables | a code block with aligned columns |
| rules | a line |
| images by address | links |
| lists | lines with bullets or numbers |

`&`, `<` and `>` are escaped everywhere, so no text of a model becomes a mention or a call of a channel. A
link is made of an address of the web or of mail, and of no other one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count

from markdown_it import MarkdownIt
from markdown_it.tree import SyntaxTreeNode

from ..aligned_tables import aligned

_PARSER = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])
_MARKS = {"strong": "*", "em": "_", "s": "~"}
_LINKED = ("https://", "http://", "mailto:")
FENCE = "```"


def to_mrkdwn(text: str) -> str:
    """Return a Markdown text as mrkdwn."""
    return "\n".join(_blocks(SyntaxTreeNode(_PARSER.parse(text)).children))


def escaped(text: str) -> str:
    """Escape the three characters that have a meaning for Slack."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _blocks(nodes: Sequence[SyntaxTreeNode], *, gap: bool = True) -> Iterator[str]:
    """Yield the lines of blocks, with a blank line between two of them."""
    for number, node in enumerate(nodes):
        if number and gap:
            yield ""
        yield from _block(node)


def _block(node: SyntaxTreeNode) -> Iterator[str]:
    match node.type:
        case "paragraph":
            yield from _inline(node.children, "").split("\n")
        case "heading":
            shown = _inline(node.children, "*")
            yield f"*{shown}*" if shown.strip() else shown
        case "blockquote":
            yield from (f"> {line}".rstrip() for line in _blocks(node.children))
        case "bullet_list":
            for item in node.children:
                yield from _item("• ", item)
        case "ordered_list":
            for number, item in zip(count(int(node.attrs.get("start", 1))), node.children):
                yield from _item(f"{number}. ", item)
        case "fence" | "code_block":
            yield from (FENCE, *_code(node.content).split("\n"), FENCE)
        case "table":
            yield from (FENCE, *map(_code, aligned(node.to_tokens())), FENCE)
        case "hr":
            yield "———"
        case _:
            yield escaped(node.content)


def _item(marker: str, item: SyntaxTreeNode) -> Iterator[str]:
    for number, line in enumerate(_blocks(item.children, gap=False)):
        yield f"{marker if number == 0 else '    '}{line}"
    if not item.children:
        yield marker.rstrip()


def _code(text: str) -> str:
    return escaped(text.rstrip("\n").replace(FENCE, "``\N{ZERO WIDTH SPACE}`"))


def _inline(nodes: Sequence[SyntaxTreeNode], marks: str, *, in_link: bool = False) -> str:
    """Return the text of a line. `marks` are those that are open around it."""
    return "".join(_piece(node, marks, in_link=in_link) for node in nodes)


def _piece(node: SyntaxTreeNode, marks: str, *, in_link: bool) -> str:
    match node.type:
        case "inline":
            return _inline(node.children, marks, in_link=in_link)
        case "strong" | "em" | "s":
            mark = _MARKS[node.type] if _MARKS[node.type] not in marks else ""
            inner = _inline(node.children, marks + mark, in_link=in_link)
            return f"{mark}{inner}{mark}" if inner.strip() else inner
        case "code_inline":
            code = escaped(node.content)
            return code if "`" in code else f"`{code}`"
        case "link" if not in_link:
            return _link(str(node.attrs.get("href", "")), _inline(node.children, marks, in_link=True))
        case "image":
            label = f"🖼 {escaped(node.content)}".rstrip()
            return label if in_link else _link(str(node.attrs.get("src", "")), label)
        case "softbreak" | "hardbreak":
            return " " if in_link else "\n"
        case "link":
            return _inline(node.children, marks, in_link=True)
        case _:
            return escaped(node.content)


def _link(address: str, label: str) -> str:
    if not address.startswith(_LINKED) or not label.strip():
        return label
    return f"<{escaped(address).replace('|', '%7C')}|{label.replace('|', '¦')}>"
