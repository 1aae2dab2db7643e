"""Conversion of the Markdown of models to Discord's, which is similar: most of a text stays as it is.

| Discord has no | Instead |
|---|---|
| tables | a code block with aligned columns |
| headings below the third level | bold |
| rules | a line |
| images by address | links |
| code by indentation, fences of `~` or of more than three `` ` `` | a fence of three |
| fences that are open at the end | closed |

A text with preformatted parts has no markup but theirs: whatever else is written there, such as the reason of
a command, could hide a part of the command or change how it looks.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from markdown_it import MarkdownIt
from markdown_it.token import Token

from hermes_trio.platform import Preformatted

from ..aligned_tables import aligned

_PARSER = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])
_RESERVED = re.compile(r"([\\*_~`|<>#\[\]():@.+-])")
_IMAGE = re.compile(r"!\[([^\]]*)\]\(")
_LANGUAGE = re.compile(r"[\w+#.-]{1,40}")
FENCE = "```"


def to_discord(text: str, preformatted: Preformatted = ()) -> str:
    """Return a Markdown text in the form that Discord renders."""
    if not preformatted:
        return "\n".join(_converted(text.split("\n"), _PARSER.parse(text)))
    written, at = "", 0
    for start, end in preformatted:
        written += escaped(text[at:start]) + _exact(text, start, end)
        at = end
    return written + escaped(text[at:])


def escaped(text: str) -> str:
    """Escape all markup of a text."""
    return _RESERVED.sub(r"\\\1", text)


def _exact(text: str, start: int, end: int) -> str:
    """Return a preformatted part as code, or escaped where code cannot show it: Discord's code has no escape,
    and loses blank lines at its ends."""
    code = text[start:end]
    is_block = text[start - 1 : start] in ("", "\n") and text[end : end + 1] in ("", "\n")
    if FENCE in code or code != code.strip("\n") or not code.strip():
        return escaped(code)
    if is_block:
        return f"{FENCE}\n{code}\n{FENCE}"
    return escaped(code) if "`" in code or "\n" in code else f"`{code}`"


def _converted(lines: Sequence[str], tokens: Sequence[Token]) -> Iterator[str]:
    """Yield the lines of a text. Blocks that Discord does not have are written anew."""
    at = 0
    for index, token in enumerate(tokens):
        if token.level or token.map is None or token.map[0] < at:
            continue
        start, end = token.map
        anew = _anew(token, tokens[index + 1 :])
        if anew is None and not _has_image(tokens[index:]):
            continue
        yield from lines[at:start]
        last = end
        while last > start and not lines[last - 1].strip():
            last -= 1  # the blank lines after a block belong to no block
        yield from [_IMAGE.sub(r"[🖼 \1](", one) for one in lines[start:last]] if anew is None else anew
        at = last
    yield from lines[at:]


def _anew(token: Token, following: Sequence[Token]) -> list[str] | None:
    """Return the lines of a block that Discord does not have; None for a block that it has."""
    match token.type:
        case "fence" | "code_block":
            info, code = token.info.strip(), token.content.rstrip("\n")
            language = info if _LANGUAGE.fullmatch(info) else ""
            lines = code.split("\n") if language or not info else [info, *code.split("\n")]
            inner = [one.replace(FENCE, "``\N{ZERO WIDTH SPACE}`") for one in lines]
            return [FENCE + language, *inner, FENCE]
        case "table_open":
            return [FENCE, *aligned(following), FENCE]
        case "hr":
            return ["———"]
        case "heading_open" if token.tag in ("h4", "h5", "h6"):
            return [f"**{following[0].content}**"]
        case _:
            return None


def _has_image(tokens: Sequence[Token]) -> bool:
    """Return True if the block at the head of the tokens has an image."""
    for token in tokens:
        if token.type == "inline" and any(child.type == "image" for child in token.children or ()):
            return True
        if token.level == 0 and token.nesting == -1:
            return False
    return False
