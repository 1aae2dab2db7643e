"""Splitting of formatted lines, so that each fits into a message of IRC. Pure.

The limit is in bytes of UTF-8. A cut is made after a space in the second half of the room, or else between
two characters as people count them. Nothing is left out and nothing is added but formatting: IRC ends all
formatting at the end of a line, so what is still open is opened again in the next piece. The pieces of an
exact line have marks that tell them from other lines, and from each other's beginnings.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

BOLD, ITALIC, STRIKE = "\x02", "\x1d", "\x1e"
CODES = BOLD + ITALIC + STRIKE
EXACT, CONTINUED = "│ ", "┆ "
"""The mark of an exact line, and that of each further piece of it."""
SMALLEST_ROOM = 32
"""Least number of bytes of a piece: less would show nothing of a long text."""

_JOINER = "\N{ZERO WIDTH JOINER}"
_EXTENDING = re.compile(f"[{_JOINER}\ufe00-\ufe0f\U0001f3fb-\U0001f3ff\U000e0020-\U000e007f]")
_FLAG_LETTER = re.compile("[\U0001f1e6-\U0001f1ff]")


def pieces(line: str, room: int) -> Iterator[str]:
    """Yield the pieces of a line, each of at most `room` bytes."""
    room, carried, start = max(room, SMALLEST_ROOM), "", 0
    mark = CONTINUED if line.startswith(EXACT) else ""
    while start < len(line):
        end = _cut(line, start, room - len(carried.encode()))
        piece = carried + line[start:end]
        yield piece
        carried = mark + "".join(code for code in CODES if piece.count(code) % 2)
        start = end


def _cut(line: str, start: int, room: int) -> int:
    """Return the end of the piece that begins at `start`: at least one character after it."""
    half, end, width = start, start, 0
    for end in range(start, len(line)):
        width += len(line[end].encode(errors="replace"))
        if width > room:
            break
        if width <= room // 2:
            half = end + 1
    else:
        return len(line)
    if (space := line.rfind(" ", half, end)) >= 0:
        return space + 1
    whole = next((place for place in range(end, start, -1) if _begins_character(line, place)), end)
    return max(whole, start + 1)


def _begins_character(line: str, place: int) -> bool:
    before, character = line[place - 1], line[place]
    if before == _JOINER or _EXTENDING.match(character) or unicodedata.category(character)[0] == "M":
        return False
    return not (_FLAG_LETTER.match(before) and _FLAG_LETTER.match(character))


def packed(lines: list[str], most: int) -> list[str]:
    """Return the lines, joined where there are more than `most`: a list of many short lines would keep the
    connection busy for minutes."""
    by = -(-len(lines) // most)
    return [" ¦ ".join(lines[place : place + by]) for place in range(0, len(lines), max(by, 1))]
