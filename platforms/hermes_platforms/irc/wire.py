"""Lines of the IRC protocol: bytes to values, and values to bytes. Pure.

A server may send anything: bytes that are no UTF-8, lines without an end, tags without a value. `LineBuffer`
raises for none of it. What we send is checked instead: `encode` raises ValueError for a value that would
become another line, another parameter or another command.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

LONGEST_LINE = 512
"""Bytes of a line with its line break, without its tags, where the server names no other number."""
LONGEST_RECEIVED = 16_384
"""Bytes of a received line that are read; the rest of a longer one is skipped."""

_ESCAPES = {":": ";", "s": " ", "r": "\r", "n": "\n", "\\": "\\"}
_ESCAPED = re.compile(r"\\(.?)", re.DOTALL)
_TO_ESCAPE = re.compile(r"[;\\\s]")
_ESCAPE_OF = {value: f"\\{code}" for code, value in _ESCAPES.items()}
_UNSENDABLE = re.compile(r"[\0\r\n]")
_RFC1459 = str.maketrans("[]\\^", "{}|~")
_STRICT = str.maketrans("[]\\", "{}|")


@dataclass(frozen=True, slots=True)
class Line:
    """One line: a message of the protocol."""

    command: str
    params: tuple[str, ...] = ()
    source: str = ""
    """Its sender: `nick!user@host`, or the name of a server."""
    tags: Mapping[str, str] = field(default_factory=dict)

    @property
    def nick(self) -> str:
        return self.source.partition("!")[0]

    def param(self, place: int) -> str:
        """Return a parameter; an empty text if the line has no such parameter."""
        return self.params[place] if -len(self.params) <= place < len(self.params) else ""


class LineBuffer:
    """Lines from a stream of bytes."""

    def __init__(self) -> None:
        self._rest = b""
        self._lines: deque[Line] = deque()

    def feed(self, data: bytes | bytearray) -> Iterator[Line]:
        """Yield the lines that are complete now. A line that the caller does not take is the first one of the
        next call."""
        *whole, rest = (self._rest + data).split(b"\n")
        self._rest = rest[:LONGEST_RECEIVED]
        self._lines.extend(line for raw in whole if (line := decode(raw[:LONGEST_RECEIVED])) is not None)
        while self._lines:
            yield self._lines.popleft()


def decode(raw: bytes) -> Line | None:
    """Return a received line; None for one without a command."""
    text = _text(raw).strip("\r\0").lstrip(" ")
    tags, source = "", ""
    if text.startswith("@"):
        tags, _, text = text[1:].partition(" ")
        text = text.lstrip(" ")
    if text.startswith(":"):
        source, _, text = text[1:].partition(" ")
    text = text.lstrip(" ")
    head, has_trailing, trailing = text.partition(" :")
    words = [word for word in head.split(" ") if word]
    if not words:
        return None
    command, *params = words
    if has_trailing:
        params.append(trailing)
    return Line(command.upper(), tuple(params), source, dict(_tags(tags)))


def _tags(text: str) -> Iterator[tuple[str, str]]:
    for tag in filter(None, text.split(";")):
        key, _, value = tag.partition("=")
        yield key, _ESCAPED.sub(lambda found: _ESCAPES.get(found[1], found[1]), value)


def _text(raw: bytes) -> str:
    """Return the text of bytes. A server cuts long lines, perhaps within a character; other bytes that are no
    UTF-8 come from old programs."""
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        is_cut = error.start >= len(raw.rstrip(b"\r")) - 3
        return raw.decode(errors="replace") if is_cut else raw.decode("cp1252", errors="replace")


def encode(command: str, *params: str, tags: Mapping[str, str] | None = None) -> bytes:
    """Return a line to send. Only the last parameter may be empty, hold spaces or begin with a colon."""
    *middle, last = params or ("",)
    for one in (command, *middle):
        if not one or one.startswith(":") or " " in one or _UNSENDABLE.search(one):
            raise ValueError(f"{one!r} is no parameter of IRC.")
    if _UNSENDABLE.search(last):
        raise ValueError("A line of IRC holds no line break.")
    words = [command, *middle, *([f":{last}"] if params else [])]
    if tags:
        written = (f"{key}={_TO_ESCAPE.sub(lambda one: _ESCAPE_OF[one[0]], tags[key])}" for key in tags)
        words.insert(0, f"@{';'.join(written)}")
    return " ".join(words).encode(errors="replace") + b"\r\n"


def folded(name: str, casemapping: str = "rfc1459") -> str:
    """Return the form of a nick, a channel or an account that all its spellings share."""
    if casemapping == "ascii":
        return name.lower()
    return name.lower().translate(_STRICT if casemapping == "rfc1459-strict" else _RFC1459)
