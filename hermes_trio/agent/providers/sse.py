"""Server-sent events out of bytes, however they are cut into chunks.

Lines end in LF, CR or CRLF; a blank line ends an event; a line that begins with a colon is a comment. Two
things are taken that the standard does not know, because servers do them: an answer in plain JSON in the
middle of the stream (an error, passed on by a proxy), and a last event without its blank line.
"""

from __future__ import annotations

import codecs
from dataclasses import dataclass

LONGEST_EVENT = 8 << 20


@dataclass(frozen=True, slots=True)
class SseEvent:
    data: str
    name: str = ""


class EventTooLong(Exception):
    """An event that no server sends who means well."""


class Decoder:
    """Bytes in, events out."""

    def __init__(self, longest: int = LONGEST_EVENT) -> None:
        self._longest = longest
        self._line = bytearray()
        """The line that has begun."""
        self._ends_in_cr = False
        """Whether its last byte is a CR, which may be half of a CRLF."""
        self._data: list[str] = []
        self._size = 0
        self._name = ""
        self._at_start = True

    def feed(self, chunk: bytes) -> list[SseEvent]:
        """The events that end in this chunk."""
        found: list[SseEvent] = []
        self._line += chunk
        if self._ends_in_cr or b"\n" in chunk or b"\r" in chunk:
            lines = bytes(self._line).splitlines(keepends=True)
            self._line = bytearray(b"" if lines[-1].endswith(b"\n") else lines.pop())
            for line in lines:
                self._take(line.rstrip(b"\r\n"), found)
            self._ends_in_cr = self._line.endswith(b"\r")
        if len(self._line) + self._size > self._longest:
            raise EventTooLong
        return found

    def end(self) -> list[SseEvent]:
        """The event that was not ended, if there is one: the stream has ended."""
        found: list[SseEvent] = []
        if self._line:
            self._take(bytes(self._line).removesuffix(b"\r"), found)
            self._line.clear()
        self._take(b"", found)
        return found

    def _take(self, raw: bytes, found: list[SseEvent]) -> None:
        if self._at_start:
            raw, self._at_start = raw.removeprefix(codecs.BOM_UTF8), False
        if not raw:
            if self._data:
                found.append(SseEvent("\n".join(self._data), self._name))
            self._data, self._size, self._name = [], 0, ""
            return
        line = raw.decode("utf-8", "replace")
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if line.startswith("{"):
            field, value = "data", line
        if field == "data":
            self._data.append(value)
            self._size += len(raw)
        elif field == "event":
            self._name = value


class JsonAnswer:
    """A decoder for an answer that is no stream: all of it is one event."""

    def __init__(self) -> None:
        self._data = bytearray()

    def feed(self, chunk: bytes) -> list[SseEvent]:
        self._data += chunk
        if len(self._data) > LONGEST_EVENT:
            raise EventTooLong
        return []

    def end(self) -> list[SseEvent]:
        if self._data.lstrip().startswith((b"data:", b"event:", b":")):  # a stream, whatever it was called
            decoder = Decoder()
            return decoder.feed(bytes(self._data)) + decoder.end()
        return [SseEvent(self._data.decode("utf-8", "replace"))]
