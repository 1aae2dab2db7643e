"""Changing a text by saying what stands there and what is to stand there instead. Pure.

What is to be replaced has to be found exactly. Where it is not, it is looked for once more line by line,
and spaces do not count: models get indentation wrong more often than words. What is put there then is
moved by as much as the place it was found at. Nothing is guessed beyond that, and of several edits all are
made, or none.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import Annotated

import msgspec
from msgspec import Meta

from ..tool import ToolFailed

MOST_LINES_COMPARED = 3000
"""Of a change that is larger only its size is told: comparing takes the square of it."""


class TextEdit(msgspec.Struct, frozen=True):
    old_string: Annotated[
        str, Meta(description="What stands in the file, with enough around it to be unique.")
    ]
    new_string: Annotated[str, Meta(description="What is to stand there instead; may be empty.")]
    replace_all: Annotated[bool, Meta(description="Replace it wherever it stands.")] = False


def edited(text: str, edits: Sequence[TextEdit]) -> str:
    """The text after all the edits, one after the other. Raises `ToolFailed` if one cannot be made."""
    windows = "\r\n" in text
    text = text.replace("\r\n", "\n") if windows else text
    for number, edit in enumerate(edits, start=1):
        old, new = edit.old_string.replace("\r\n", "\n"), edit.new_string.replace("\r\n", "\n")
        try:
            text = _made(text, old, new, everywhere=edit.replace_all)
        except ToolFailed as failed:
            which = f"Edit {number} of {len(edits)}: " if len(edits) > 1 else ""
            raise ToolFailed(f"{which}{failed} Nothing was changed.") from None
    return text.replace("\n", "\r\n") if windows else text


def _made(text: str, old: str, new: str, *, everywhere: bool) -> str:
    if not old.strip():
        raise ToolFailed("old_string is empty. Say what is to be replaced, or use write_file.")
    if old == new:
        raise ToolFailed("old_string and new_string are the same.")
    found = text.count(old)
    if found > 1 and not everywhere:
        raise ToolFailed(f"old_string stands there {found} times. Make it unique, or set replace_all.")
    if found:
        return text.replace(old, new)
    lines, wanted = text.split("\n"), old.strip("\n").split("\n")
    places = _alike(lines, wanted)
    if not places:
        raise ToolFailed(f"old_string does not stand in the file.{_nearest(lines, wanted)}")
    if len(places) > 1 and not everywhere:
        told = ", ".join(str(place + 1) for place in places[:10])
        raise ToolFailed(f"But for spaces, old_string stands in lines {told}. Make it unique.")
    for place in reversed(places):
        there = lines[place : place + len(wanted)]
        lines[place : place + len(wanted)] = _moved(new.strip("\n").split("\n") if new else [], wanted, there)
    return "\n".join(lines)


def _alike(lines: Sequence[str], wanted: Sequence[str]) -> list[int]:
    """Where these lines stand, whatever their spaces; no two of the places overlap."""
    looked, sought = [" ".join(line.split()) for line in lines], [" ".join(line.split()) for line in wanted]
    places: list[int] = []
    for at in range(len(looked) - len(sought) + 1):
        if looked[at] != sought[0] or looked[at : at + len(sought)] != sought:
            continue
        if not places or at >= places[-1] + len(sought):
            places.append(at)
    return places


def _moved(new: Sequence[str], wanted: Sequence[str], there: Sequence[str]) -> list[str]:
    """New lines, indented as the place is at which others were found than were asked for."""
    at = next(number for number, line in enumerate(wanted) if line.strip())
    asked, found = _indent(wanted[at]), _indent(there[at])
    moved = []
    for line in new:
        if line.strip() and line.startswith(asked):
            line = found + line[len(asked) :]
        moved.append(line)
    return moved


def _indent(line: str) -> str:
    return line[: len(line) - len(line.lstrip())]


def _nearest(lines: Sequence[str], wanted: Sequence[str]) -> str:
    """Where something like the first line that was asked for stands, as a hint."""
    first = next(line.strip() for line in wanted if line.strip())
    if len(lines) > MOST_LINES_COMPARED:
        return " Read it again."
    near = difflib.get_close_matches(first, [line.strip() for line in lines], n=1, cutoff=0.7)
    if not near:
        return " Read it again."
    number = next(at for at, line in enumerate(lines, start=1) if line.strip() == near[0])
    return f" Line {number} comes near: {near[0][:200]!r}."


def difference(before: str, after: str, name: str) -> str:
    """A unified diff; where that would take too long, what lines it is about."""
    old, new = before.splitlines(), after.splitlines()
    head = 0
    while head < min(len(old), len(new)) and old[head] == new[head]:
        head += 1
    tail = 0
    while tail < min(len(old), len(new)) - head and old[-1 - tail] == new[-1 - tail]:
        tail += 1
    if max(len(old), len(new)) - head - tail > MOST_LINES_COMPARED:
        return f"{name}: lines {head + 1} to {len(old) - tail} are now {head + 1} to {len(new) - tail}."
    start, around = max(0, head - 3), max(0, tail - 3)
    diff = difflib.unified_diff(
        old[start : len(old) - around], new[start : len(new) - around], name, name, lineterm=""
    )
    return "\n".join(_numbered(line, start) for line in diff) or f"{name}: only line ends have changed."


def _numbered(line: str, start: int) -> str:
    """A line of the diff of a part, as one of the whole: `@@ -1,7 +1,8 @@` counts from the beginning."""
    if not line.startswith("@@ ") or not start:
        return line
    parts = line.split(" ")
    for at in (1, 2):
        sign, (number, *length) = parts[at][0], parts[at][1:].split(",")
        parts[at] = sign + ",".join([str(int(number) + start), *length])
    return " ".join(parts)
