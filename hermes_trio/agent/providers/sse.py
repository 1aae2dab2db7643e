"""Server-sent events, decoded from bytes in chunks of any size.

Lines end in LF, CR or CRLF; a blank line ends an event; a line that begins with a colon is a comment. Two
deviations from the standard are accepted, because servers have them: plain JSON in the middle of the stream
(an error that a proxy passed on), and a last event without its blank line.
"""

from __future__ import annotations

import codecs
from dataclasses import dataclass

LONGEST_EVENT = 8 << 20


@dataclass(frozen=True, slots=True)
class ReceivedEvent:
    """One server-sent event."""

    data: str
    name: str = ""


class EventTooLong(Exception):
    """An event is longer than any that a sound server sends."""


class Decoder:
    """A decoder for a stream of events."""

    def __init__(self, longest: int = LONGEST_EVENT) -> None:
        self._longest = longest
        self._line = bytearray()
        """The incomplete line."""
        self._ends_in_cr = False
        """True if the last byte of the line is a CR, which may be the first half of a CRLF."""
        self._data: list[str] = []
        self._size = 0
        self._name = ""
        self._at_start = True

    def feed(self, chunk: bytes) -> list[ReceivedEvent]:
        """Return the events that end in this chunk."""
        found: list[ReceivedEvent] = []
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

    def end(self) -> list[ReceivedEvent]:
        """End the stream; return its last event if that has no blank line after it."""
        found: list[ReceivedEvent] = []
        if self._line:
            self._take(bytes(self._line).removesuffix(b"\r"), found)
            self._line.clear()
        self._take(b"", found)
        return found

    def _take(self, raw: bytes, found: list[ReceivedEvent]) -> None:
        """Read one line; add the event that it ends to `found`."""
        if self._at_start:
            raw, self._at_start = raw.removeprefix(codecs.BOM_UTF8), False
        if not raw:
            if self._data:
                found.append(ReceivedEvent("\n".join(self._data), self._name))
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
    """A decoder for an answer that is not a stream: the whole body is one event."""

    def __init__(self) -> None:
        self._data = bytearray()

    def feed(self, chunk: bytes) -> list[ReceivedEvent]:
        """Add a chunk of the body. No event is complete before the end."""
        self._data += chunk
        if len(self._data) > LONGEST_EVENT:
            raise EventTooLong
        return []

    def end(self) -> list[ReceivedEvent]:
        """Return the body as one event; as several if it is a stream after all."""
        if self._data.lstrip().startswith((b"data:", b"event:", b":")):  # a stream with a wrong content type
            decoder = Decoder()
            return decoder.feed(bytes(self._data)) + decoder.end()
        return [ReceivedEvent(self._data.decode("utf-8", "replace"))]
