"""The body of a response in chunks (RFC 9112, section 7.1), decoded from data in pieces of any size.

A server of models sends each word as a chunk, and many chunks often arrive together. h11 makes an event of
each, which costs four times as much as all of the decoding here. Trailers are read and dropped.
"""

from __future__ import annotations

import re

LONGEST_LINE = 16 * 1024
"""Maximum bytes of the line before a chunk, and of the trailers."""

_SIZE = re.compile(rb"([0-9A-Fa-f]{1,16})[ \t]*(?:;[^\r\n]*)?\r\n")
_BLANK = re.compile(rb"\n\r?\n")
"""The end of a line, and a blank line."""


class ChunkedBody:
    """The decoder of one body."""

    def __init__(self) -> None:
        self.is_over = False
        """True if the last chunk has arrived."""
        self.problem = ""
        """The fault in the data, which comes after all content that was returned."""
        self.rest = b""
        """The data that is not decoded: an incomplete line, or what came after the body."""
        self._left = 0
        """Bytes of the current chunk that have not arrived."""
        self._is_in_chunk = self._is_in_trailers = False

    def feed(self, data: bytes) -> bytes:
        """Return the content in the next data. No data means that the server has closed the connection."""
        if not data and not self.is_over:
            self.problem = self.problem or "the server closed the connection within the response"
        data, at, found = self.rest + data, 0, []
        while not (self.is_over or self.problem):
            if self._is_in_chunk:
                content = data[at : at + self._left]
                found.append(content)
                at += len(content)
                self._left -= len(content)
                if self._left or len(data) < at + 2:
                    break
                if not data.startswith(b"\r\n", at):
                    self.problem = "a chunk is longer than its size"
                    break
                at += 2
                self._is_in_chunk = False
            elif self._is_in_trailers:
                if (blank := _BLANK.search(data, at)) is None:
                    break
                at = blank.end()
                self.is_over = True
            elif size := _SIZE.match(data, at):
                self._left = int(size[1], 16)
                self._is_in_chunk, self._is_in_trailers = self._left > 0, self._left == 0
                # The end of this line may be the first half of the blank line after the trailers.
                at = size.end() if self._left else size.end() - 1
            else:
                if b"\n" in data[at:]:
                    self.problem = "a chunk without a size"
                break
        self.rest = data[at:]
        if len(self.rest) > LONGEST_LINE and not self.is_over:
            self.problem = self.problem or "a line before a chunk is too long"
        return b"".join(found)
