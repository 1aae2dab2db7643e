"""Markdown of models as the content of a message: its text, and HTML of the elements that clients show.

Letters are escaped, HTML of a model is text, and an image is a link: clients would fetch it, and its address
may hold a secret. An event may have 65,536 bytes with everything; a text whose HTML would be too long goes
without.
"""

from __future__ import annotations

import json
import re
from html import escape

from markdown_it import MarkdownIt
from markdown_it.token import Token

from hermes_trio.platform import Preformatted, Refused

LONGEST_CONTENT = 60_000
ADDRESS = re.compile(r"(?i)(?:https?|mailto|matrix):\S")

_PARSER = MarkdownIt("commonmark", {"html": False, "breaks": True}).enable(["table", "strikethrough"])


def content_of(text: str, preformatted: Preformatted = ()) -> dict[str, object]:
    """Return the text and the HTML of a message. Raises `Refused` for preformatted parts that do not fit."""
    formatted = _exact(text, preformatted) if preformatted else to_html(text)
    content: dict[str, object] = {
        "body": text,
        "format": "org.matrix.custom.html",
        "formatted_body": formatted,
    }
    if 2 * len(json.dumps(content)) <= LONGEST_CONTENT:  # an edit holds it twice
        return content
    if preformatted:
        raise Refused("Its exact form is longer than Matrix takes.")
    return {"body": text}


def to_html(text: str) -> str:
    """Return a Markdown text as HTML."""
    tokens = _PARSER.parse(text)
    for token in tokens:
        if token.children:
            token.children = [part for child in token.children for part in _safe(child)]
    return str(_PARSER.renderer.render(tokens, _PARSER.options, {})).strip()


def _safe(token: Token) -> list[Token]:
    """Return the parts of a line without images, and without links to what is no address."""
    if token.type == "image":
        shown = Token("text", "", 0, content=f"🖼 {token.content}".strip())
        return [_link(str(token.attrs.get("src", ""))), shown, Token("link_close", "a", -1)]
    if token.type == "link_open" and not ADDRESS.match(str(token.attrs.get("href", ""))):
        return [_link("")]
    return [token]


def _link(address: str) -> Token:
    return Token("link_open", "a", 1, attrs={"href": address} if ADDRESS.match(address) else {})


def _exact(text: str, preformatted: Preformatted) -> str:
    """Return a text whose parts between the preformatted ones have no markup."""
    written, at = "", 0
    for start, end in preformatted:
        is_block = text[start - 1 : start] in ("", "\n") and text[end : end + 1] in ("", "\n")
        inner = escape(text[start:end])
        written += _lines(text[at:start])
        written += f"<pre><code>{inner}</code></pre>" if is_block else f"<code>{inner}</code>"
        at = end
    return written + _lines(text[at:])


def _lines(text: str) -> str:
    return escape(text).replace("\n", "<br>")
