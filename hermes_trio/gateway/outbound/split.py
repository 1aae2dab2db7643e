"""Splitting a long text into messages that fit. Pure functions.

A cut is made at the end of a line if that leaves at least half a message, else at a space, else between two
characters as people count them (grapheme clusters). Fenced code that is cut is closed in one message and
opened again, with its language, in the next. Each of several messages ends in its number: ` (2/3)`.

No text is lost: the messages, without the added fences and numbers, are the text in order. Only white space
is left out: at a cut (within code at most the one line break), and around the whole text, where platforms
remove it anyway, and refuse a blank message. A lone surrogate cannot be sent and becomes the replacement
character.

A line that looks like a fence and is wider than a quarter of a message counts as text: closing and opening it
again would leave no room for the code.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

from ...platform.contract import Counting, Traits

SMALLEST_LIMIT = 64
"""Smallest limit of a platform: below it the fences and the numbers leave no room for the text."""

_SPACE = " \t\r\n"
_BLANK_LINES = re.compile(r"[ \t\r\n]*\n")
_GAP = re.compile(r"[ \t\r\n]*\n|[ \t\r]+")
_FENCE = re.compile(r"^[ \t]*(?P<mark>`{3,}|~{3,})(?P<info>[^\n]*)$", re.MULTILINE)
_PAIR_OR_HALF = re.compile("[\ud800-\udbff][\udc00-\udfff]|[\ud800-\udfff]")

_JOINER = "\N{ZERO WIDTH JOINER}"
_FLAG_LETTERS = range(0x1F1E6, 0x1F200)
# Code points that belong to the character before them although their category is no mark: skin tones, the
# letters in the flag of a region, the later parts of a Korean syllable.
_EXTENDING = re.compile(f"[{_JOINER}\u200c\u1160-\u11ff\U0001f3fb-\U0001f3ff\U000e0020-\U000e007f]")


def fits(text: str, traits: Traits) -> bool:
    """Return True if `text` fits into one message."""
    # A character counts as at least 1 and at most 4, whatever the platform counts.
    if len(text) > traits.limit or len(text) * 4 <= traits.limit:
        return len(text) <= traits.limit
    return _Ruler(text, traits.counting).between(0, len(text)) <= traits.limit


def width(text: str, counting: Counting) -> int:
    """Return the length of a text for a platform with this counting."""
    return _Ruler(text, counting).between(0, len(text))


def chunks(text: str, traits: Traits) -> list[str]:
    """Return `text` as messages for a platform with these traits, in order; none for a blank text. Raises
    ValueError for a limit that is too small."""
    if traits.limit < SMALLEST_LIMIT:
        raise ValueError(f"A limit of {traits.limit} {traits.counting} is less than {SMALLEST_LIMIT}.")
    text = _mended(text).rstrip(_SPACE)
    text = text[_after(_BLANK_LINES, text, 0) :]
    ruler = _Ruler(text, traits.counting)
    if ruler.between(0, len(text)) <= traits.limit:
        return [text] if text else []
    # The room that the numbers take depends on the number of messages.
    digits = len(str(ruler.between(0, len(text)) // traits.limit + 1))
    codes = _Codes(ruler, widest=traits.limit // 4)
    while True:
        pieces = list(_pieces(ruler, codes, traits.limit - len(" (/)") - 2 * digits))
        if len(str(len(pieces))) <= digits:
            break
        digits += 1
    if len(pieces) == 1:
        return [pieces[0].text]
    return [piece.numbered(number, len(pieces)) for number, piece in enumerate(pieces, 1)]


@dataclass(frozen=True, slots=True)
class _Piece:
    text: str
    ends_in_fence: bool

    def numbered(self, number: int, count: int) -> str:
        # A fence with other text on its line closes nothing.
        between = "\n" if self.ends_in_fence else " "
        return f"{self.text}{between}({number}/{count})"


@dataclass(frozen=True, slots=True)
class _Code:
    """A fenced block: the places of its opening, of its first character, of its closing line and of its
    end."""

    start: int
    inside: int
    closing: int
    end: int
    opening: str
    mark: str
    indent: str

    @property
    def reopened(self) -> str:
        return f"{self.opening}\n"

    @property
    def closed(self) -> str:
        """Closing fence with the indentation of the opening one. In a list a fence without the indentation
        would end the list instead, and open another block."""
        return f"\n{self.indent}{self.mark}"

    @property
    def closed_again(self) -> str:
        """Closing fence of a block that was opened again, without indentation."""
        return f"\n{self.mark}"


class _Ruler:
    """A text, and the width of each part of it."""

    def __init__(self, text: str, counting: Counting) -> None:
        self.text = text
        self._unit = _UNITS[counting]
        self._before: Sequence[int] = range(len(text) + 1)
        if counting != "characters" and not text.isascii():
            self._before = [0, *accumulate(map(self._unit, text))]

    def width(self, added: str) -> int:
        return sum(map(self._unit, added))

    def between(self, start: int, end: int) -> int:
        return self._before[end] - self._before[start]

    def reach(self, start: int, room: int) -> int:
        """Return the last place that can be reached from `start` within this width."""
        return bisect_right(self._before, self._before[start] + room) - 1


_UNITS: Mapping[Counting, Callable[[str], int]] = {
    "characters": lambda _: 1,
    "utf-16": lambda character: 2 if character > "\uffff" else 1,
    "bytes": lambda character: len(character.encode()),
}


class _Codes:
    """The fenced blocks of a text."""

    def __init__(self, ruler: _Ruler, *, widest: int) -> None:
        self._all = list(_fenced(ruler, widest))
        self._starts = [code.start for code in self._all]

    def around(self, place: int) -> _Code | None:
        """Return the block that has characters on both sides of this place, or None."""
        last = bisect_left(self._starts, place) - 1
        return self._all[last] if last >= 0 and place < self._all[last].end else None

    def just_closed(self, place: int) -> bool:
        """Return True if the line before this place closes a block."""
        last = bisect_left(self._starts, place) - 1
        return last >= 0 and self._all[last].closing < place <= self._all[last].end


def _fenced(ruler: _Ruler, widest: int) -> Iterator[_Code]:
    text, opened, mark = ruler.text, None, ""
    for fence in _FENCE.finditer(text):
        info = fence["info"].strip()
        if ruler.between(fence.start(), fence.end()) > widest:
            continue
        if opened is None:
            if "`" not in info or fence["mark"][0] == "~":  # else it is code within a line
                opened, mark = fence, fence["mark"]
        elif not info and fence["mark"].startswith(mark):
            yield _code(opened, closing=fence.start(), end=fence.end())
            opened = None
    if opened is not None:
        yield _code(opened, closing=len(text) + 1, end=len(text) + 1)


def _code(opened: re.Match[str], *, closing: int, end: int) -> _Code:
    mark, language = opened["mark"], opened["info"].split()[:1]
    indent = opened[0][: -len(opened[0].lstrip(" \t"))]
    return _Code(opened.start(), opened.end() + 1, closing, end, "".join([mark, *language]), mark, indent)


def _pieces(ruler: _Ruler, codes: _Codes, room: int) -> Iterator[_Piece]:
    text, start = ruler.text, 0
    while start < len(text):
        within = codes.around(start)
        head = within.reopened if within else ""
        end = _cut(ruler, codes, start, room - ruler.width(head))
        if cut := codes.around(end):
            closed = cut.closed_again if cut is within else cut.closed
            yield _Piece(head + text[start:end] + closed, ends_in_fence=True)
            start = end + 1 if text[end : end + 1] == "\n" else end
        else:
            body = text[start:end].rstrip(_SPACE)
            if body:
                yield _Piece(head + body, ends_in_fence=codes.just_closed(start + len(body)))
            start = _after(_GAP, text, end)


def _cut(ruler: _Ruler, codes: _Codes, start: int, room: int) -> int:
    """Return the end of the message that begins at `start`."""
    text, end = ruler.text, ruler.reach(start, room)
    code = codes.around(end)
    if code:
        room -= ruler.width(code.closed)
        end = ruler.reach(start, room)
    if end >= len(text):
        return len(text)
    half = ruler.reach(start, room // 2)
    place = text.rfind("\n", half, end + 1)
    if place < 0:
        place = _cut_in_line(text, start, half, end, in_code=code is not None)
    if code and start < code.start and place < code.inside:
        return code.start - 1  # else no code would follow its opening
    return place


def _cut_in_line(text: str, start: int, half: int, end: int, *, in_code: bool) -> int:
    place = text.rfind(" ", half, end + 1)
    if place < 0 or not _begins_character(text, place + 1, start):
        place = _whole_characters(text, start, end)
    return place if in_code else _before_inline_code(text, start, half, place)


def _before_inline_code(text: str, start: int, half: int, place: int) -> int:
    line = max(start, text.rfind("\n", start, place) + 1)
    if text.count("`", line, place) % 2 == 0:
        return place
    before = len(text[line : text.rfind("`", line, place)].rstrip("`"))
    return line + before if line + before > half else place


def _whole_characters(text: str, start: int, end: int) -> int:
    """Return the last place up to `end` that is not inside of a character; `end` if there is none."""
    for place in range(end, start, -1):
        if _begins_character(text, place, start):
            return place
    return end


def _begins_character(text: str, place: int, start: int) -> bool:
    character, before = text[place], text[place - 1]
    if before == _JOINER or _EXTENDING.match(character) or unicodedata.category(character)[0] == "M":
        return False
    if ord(character) not in _FLAG_LETTERS:
        return True
    letters = place
    while letters > start and ord(text[letters - 1]) in _FLAG_LETTERS:
        letters -= 1
    return (place - letters) % 2 == 0  # two letters are one flag


def _after(pattern: re.Pattern[str], text: str, place: int) -> int:
    found = pattern.match(text, place)
    return found.end() if found else place


def _mended(text: str) -> str:
    return text if text.isascii() else _PAIR_OR_HALF.sub(_mend, text)


def _mend(found: re.Match[str]) -> str:
    return found[0].encode("utf-16", "surrogatepass").decode("utf-16", "replace")
