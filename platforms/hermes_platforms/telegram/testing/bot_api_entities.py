"""MarkdownV2 as the Bot API reads it: the text that people see, or the reason for which it is refused.

This parser checks the output of `formatting`, so it shares no code with it. Its rules are those of the
server: one reserved character without a backslash makes the server refuse the whole message.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

_ESCAPED = re.compile(r"\\([\x01-\x7e])")
_LANGUAGE = re.compile(r"([^\s`]+)(?=\s)")
_LINE_BREAK = re.compile(r"\r\n|\n\r|\n|\r")
_WEB_ADDRESS = re.compile(r"(?i)(?:(?:https?|ftp|tg|ton)://)?[^\s/@:]+(?:\.[^\s/]+|:\d+)?(?:[/?#:]\S*)?")
_SCHEME = re.compile(r"(?i)[a-z][a-z0-9+.-]*:")

_MARKS = {
    "*": "bold",
    "_": "italic",
    "__": "underline",
    "~": "strikethrough",
    "||": "spoiler",
    "`": "code",
    "```": "pre",
    "[": "text_link",
    "![": "custom_emoji",
}
_ENDS = {
    **{kind: mark for mark, kind in _MARKS.items()},
    "text_link": "]",
    "custom_emoji": "]",
    "blockquote": "",
}
_RESERVED = set("_*[]()~`>#+-=|{}.!")


class CannotParse(Exception):
    """The text is refused. The error has the text of the server."""


@dataclass(frozen=True, slots=True)
class Entity:
    """A formatted part of a text. Offsets are in UTF-16 units, as in the API."""

    kind: str
    offset: int
    length: int
    url: str | None = None
    language: str | None = None


@dataclass(frozen=True, slots=True)
class _Open:
    kind: str
    offset: int
    at: int
    """Index of its start in the source."""
    shown: int
    """Index of its start in the visible text."""
    language: str | None = None


def utf16_length(text: str) -> int:
    """Return the length of a text as Telegram counts it."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def parse_markdown_v2(text: str) -> tuple[str, list[Entity]]:
    """Return the visible text and its entities. Raises `CannotParse`."""
    reader = _Reader(text)
    reader.read()
    shown = "".join(reader.shown)
    begin = len(shown) - len(shown.lstrip())
    return _trimmed(shown.strip(), reader.entities, begin)


def _trimmed(shown: str, entities: list[Entity], begin: int) -> tuple[str, list[Entity]]:
    end, kept = utf16_length(shown), []
    for entity in sorted(entities, key=lambda one: (one.offset, -one.length)):
        first = max(entity.offset - begin, 0)
        last = min(entity.offset + entity.length - begin, end)
        if last > first:
            kept.append(replace(entity, offset=first, length=last - first))
    return shown, kept


class _Reader:
    def __init__(self, text: str) -> None:
        self.text, self.at = text, 0
        self.shown: list[str] = []
        self.entities: list[Entity] = []
        self._units = 0
        self._open: list[_Open] = []

    def read(self) -> None:
        if self.text.startswith(">"):
            self._begin("blockquote", 1)
        while self.at < len(self.text):
            self._step()
        if self._innermost == "blockquote":
            self._end()
        if self._open:
            self._fail_unended()

    @property
    def _innermost(self) -> str | None:
        return self._open[-1].kind if self._open else None

    def _step(self) -> None:
        if escaped := _ESCAPED.match(self.text, self.at):
            self._show(escaped[1])
            self.at = escaped.end()
        elif self._innermost in ("code", "pre"):
            self._in_code()
        elif self.text[self.at] == "\n":
            self._break_line()
        elif self.text[self.at] in _RESERVED:
            self._mark(self._mark_here())
        else:
            self._show(self.text[self.at])
            self.at += 1

    def _in_code(self) -> None:
        if self.text[self.at] != "`":
            self._show(self.text[self.at])
            self.at += 1
        elif self._innermost == "code" or self.text.startswith("```", self.at):
            self.at += len(_ENDS[self._open[-1].kind])
            self._end()
        else:
            self._begin("code", 1)

    def _break_line(self) -> None:
        quoted = any(one.kind == "blockquote" for one in self._open)
        goes_on = self.text.startswith(">", self.at + 1)
        if quoted and not goes_on and self._innermost != "blockquote":
            self._fail_unended()
        self._show("\n")
        self.at += 1
        if quoted and not goes_on:
            self._end()
        elif goes_on and quoted:
            self.at += 1
        elif goes_on:
            self._begin("blockquote", 1)

    def _mark_here(self) -> str:
        for mark in ("```", "__", "||", "![", *_MARKS):
            if self.text.startswith(mark, self.at):
                return mark
        return self.text[self.at]

    def _mark(self, mark: str) -> None:
        if self._open and mark == _ENDS[self._open[-1].kind]:
            self.at += len(mark)
            self._end()
        elif mark in _MARKS:
            self._begin(_MARKS[mark], len(mark))
        else:
            raise CannotParse(f"Character '{mark}' is reserved and must be escaped with the preceding '\\'")

    def _begin(self, kind: str, width: int) -> None:
        began, language = self.at, None
        self.at += width
        if kind == "pre":
            if named := _LANGUAGE.match(self.text, self.at):
                language = named[1]
                self.at = named.end()
            if line_break := _LINE_BREAK.match(self.text, self.at):
                self.at = line_break.end()
        self._open.append(_Open(kind, self._units, began, len(self.shown), language))

    def _end(self) -> None:
        one = self._open.pop()
        url: str | None = None
        if one.kind in ("text_link", "custom_emoji"):
            url = self._url(one)
            if url is None:
                return
        if self._units > one.offset:
            length = self._units - one.offset
            self.entities.append(Entity(one.kind, one.offset, length, url, one.language))

    def _url(self, one: _Open) -> str | None:
        """Return the address of a link; None if it is not valid, and the link becomes plain text."""
        if not self.text.startswith("(", self.at):
            if one.kind == "custom_emoji":
                raise CannotParse("Custom emoji entity must contain a tg://emoji URL")
            return _checked("".join(self.shown[one.shown :]))
        began, url = self.at + 1, []
        self.at = began
        while self.at < len(self.text) and self.text[self.at] != ")":
            escaped = _ESCAPED.match(self.text, self.at)
            url.append(escaped[1] if escaped else self.text[self.at])
            self.at += 2 if escaped else 1
        if self.at >= len(self.text):
            raise CannotParse(f"Can't find end of a URL at byte offset {self._bytes_before(began)}")
        self.at += 1
        return _checked("".join(url))

    def _show(self, character: str) -> None:
        self.shown.append(character)
        self._units += 2 if character > "\uffff" else 1

    def _fail_unended(self) -> None:
        one = self._open[-1]
        kind = "".join(part.capitalize() for part in one.kind.split("_"))
        raise CannotParse(f"Can't find end of {kind} entity at byte offset {self._bytes_before(one.at)}")

    def _bytes_before(self, place: int) -> int:
        return len(self.text[:place].encode("utf-8", "surrogatepass"))


def _checked(url: str) -> str | None:
    if _SCHEME.match(url) and not re.match(r"(?i)(?:https?|ftp|tg|ton)://|[^:/]+\.[^:/]+:\d", url):
        return None
    return url if _WEB_ADDRESS.fullmatch(url) else None
