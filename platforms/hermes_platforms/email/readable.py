"""The text of a mail, as its sender has written it. Pure."""

from __future__ import annotations

import re
from email.message import EmailMessage, MIMEPart
from html.parser import HTMLParser

_HIDDEN = ("script", "style", "head", "title", "template")
_BLOCKS = (
    "p",
    "div",
    "br",
    "tr",
    "li",
    "h1",
    "h2",
    "h3",
    "h4",
    "h5",
    "h6",
    "blockquote",
    "table",
    "pre",
    "hr",
)
_INTRODUCTION = re.compile(r"\n[^\n]{1,200}(?:\n[^\n]{1,100})?:[ \t]*\n*\Z")


def text_of(mail: EmailMessage) -> str:
    """Return the text of a mail; of its HTML if it has no other one. The quoted mail below an answer, and a
    signature, are left out."""
    body = mail.get_body(preferencelist=("plain", "html"))
    if body is None:
        return ""
    text = _decoded(body)
    if body.get_content_type() == "text/html":
        text = html_to_text(text)
    return without_quote(text.replace("\r\n", "\n")).strip()


def _decoded(part: MIMEPart) -> str:
    data = part.get_payload(decode=True)
    charset = part.get_content_charset("utf-8")
    if not isinstance(data, bytes):
        return ""
    try:
        return data.decode(charset, "replace")
    except LookupError:
        return data.decode("utf-8", "replace")


def without_quote(text: str) -> str:
    """Leave out a signature, and the quoted mail at the end with the line that introduces it. A quotation
    with words below it is answered line by line, and stays."""
    text = re.split(r"(?m)^-- $", text, maxsplit=1)[0].rstrip()
    lines = text.split("\n")
    end = len(lines)
    while end and (lines[end - 1].startswith(">") or not lines[end - 1].strip()):
        end -= 1
    if end == len(lines) or not any(one.startswith(">") for one in lines[end:]):
        return text
    kept = "\n" + "\n".join(lines[:end]) + "\n"
    return _INTRODUCTION.sub("\n", kept).strip("\n") or text


def html_to_text(html: str) -> str:
    """Return the text of a page of HTML, with the addresses of its links."""
    reader = _Reader()
    reader.feed(html)
    reader.close()
    text = re.sub(r"[ \t\xa0]+", " ", "".join(reader.text))
    return re.sub(r"\n{3,}", "\n\n", re.sub(r" ?\n ?", "\n", text)).strip()


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.text: list[str] = []
        self._hidden = 0
        self._links: list[tuple[str, int]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in _HIDDEN:
            self._hidden += 1
        elif tag in _BLOCKS:
            self.text.append("\n")
        elif tag == "a":
            self._links.append((dict(attrs).get("href") or "", len(self.text)))

    def handle_endtag(self, tag: str) -> None:
        if tag in _HIDDEN:
            self._hidden = max(self._hidden - 1, 0)
        elif tag in _BLOCKS:
            self.text.append("\n")
        elif tag == "a" and self._links:
            address, start = self._links.pop()
            label = "".join(self.text[start:]).strip()
            if address.startswith(("http://", "https://")) and address != label:
                self.text.append(f" ({address})")

    def handle_data(self, data: str) -> None:
        if not self._hidden:
            self.text.append(re.sub(r"\s+", " ", data))
