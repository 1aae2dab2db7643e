"""What the terminal is shown: text, and never a command to it.

Names, messages, answers and errors are written by people, models and platforms. A terminal obeys control
characters in them: it fills the clipboard, moves the cursor over what stood there, reorders a line. So they
are shown as escapes, such as `\\u001b`, in everything that a command writes.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TextIO, cast

_OBEYED = re.compile(
    "[\0-\x08\x0b-\x1f\x7f-\x9f"  # C0 but for tab and newline, DEL, C1
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # marks that reorder what stands around them
    "\u2028\u2029\ufff9-\ufffb\U000e0000-\U000e007f]"  # line ends of another kind, and what nobody sees
)


def visible(text: str) -> str:
    """The text with every character that a terminal obeys as an escape. JSON stays JSON."""
    return _OBEYED.sub(_escape, text.replace("\r\n", "\n"))


def _escape(found: re.Match[str]) -> str:
    code = ord(found[0])
    if code > 0xFFFF:  # as JSON writes it
        high, low = divmod(code - 0x10000, 0x400)
        return f"\\u{0xD800 + high:04x}\\u{0xDC00 + low:04x}"
    return f"\\u{code:04x}"


class Visible:
    """A text stream whose control characters are shown. `buffer` is no part of it: nobody gets around it by
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
    """The stream itself, for a style of our own around a text that is `visible`."""
    return stream.stream if isinstance(stream, Visible) else stream


@contextmanager
def visible_output() -> Iterator[None]:
    """Show control characters in whatever this program writes in the block."""
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = (cast(TextIO, stream and Visible(stream)) for stream in before)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before
