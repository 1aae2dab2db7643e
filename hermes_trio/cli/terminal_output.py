"""Output to a terminal without control characters.

Names, messages, answers and errors come from people, models and platforms. A terminal obeys control
characters in them: it fills the clipboard, overwrites earlier text, or reorders a line. So a command writes
each control character as an escape, such as `\\u001b`.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TextIO, cast

_OBEYED = re.compile(
    "[\0-\x08\x0b-\x1f\x7f-\x9f"  # C0 except tab and newline, DEL, C1
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # marks that reorder the text around them
    "\u2028\u2029\ufff9-\ufffb\U000e0000-\U000e007f]"  # other line ends, and invisible characters
)


def visible(text: str) -> str:
    """Return the text with an escape for each control character. JSON stays valid JSON."""
    return _OBEYED.sub(_escape, text.replace("\r\n", "\n"))


def _escape(found: re.Match[str]) -> str:
    code = ord(found[0])
    if code > 0xFFFF:  # as JSON writes it
        high, low = divmod(code - 0x10000, 0x400)
        return f"\\u{0xD800 + high:04x}\\u{0xDC00 + low:04x}"
    return f"\\u{code:04x}"


class Visible:
    """A text stream that escapes control characters. It has no `buffer`, so that no code bypasses it by
    accident."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream

    def write(self, text: str) -> int:
        self.stream.write(visible(text))
        return len(text)

    def writelines(self, lines: list[str]) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        if name == "buffer":
            raise AttributeError(name)
        return getattr(self.stream, name)


def unescaped(stream: TextIO) -> TextIO:
    """Return the stream without the escaping, for our own styles around a text that is already `visible`."""
    return stream.stream if isinstance(stream, Visible) else stream


@contextmanager
def visible_output() -> Iterator[None]:
    """Escape control characters in everything that this program prints in the block."""
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = (cast(TextIO, stream and Visible(stream)) for stream in before)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before
