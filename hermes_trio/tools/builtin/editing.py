"""Edits of a text: each replaces an old string by a new one. Pure.

The old string has to occur exactly. If it does not, it is searched again line by line without regard to
spaces: models get indentation wrong more often than words. The new string is then indented like the lines
that were found. Nothing else is guessed, and of several edits either all are made, or none.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import Annotated

import msgspec
from msgspec import Meta

from ..tool import NotShown, ToolFailed

MOST_LINES_COMPARED = 3000
"""Lines of a change that are compared. Of a larger change only its extent is reported: comparing takes
quadratic time."""
NO_LINE_BREAK = "\\ No newline at end of file"


class TextEdit(msgspec.Struct, frozen=True):
    old_string: Annotated[str, Meta(description="The text in the file, with enough around it to be unique.")]
    new_string: Annotated[str, Meta(description="The text that replaces it; may be empty.")]
    replace_all: Annotated[bool, Meta(description="Replace every occurrence.")] = False


def edited(text: str, edits: Sequence[TextEdit]) -> str:
    """Return the text after all edits, made one after another. Raises `ToolFailed` if one cannot be made."""
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
        raise ToolFailed("old_string is empty. Give the text that is to be replaced, or use write_file.")
    if old == new:
        raise ToolFailed("old_string and new_string are the same.")
    found = text.count(old)
    if found > 1 and not everywhere:
        raise ToolFailed(f"old_string occurs {found} times. Make it unique, or set replace_all.")
    if found:
        return text.replace(old, new)
    lines, wanted = text.split("\n"), old.strip("\n").split("\n")
    places = _alike(lines, wanted)
    if not places:
        raise ToolFailed(f"old_string is not in the file.{_nearest(lines, wanted)}")
    if len(places) > 1 and not everywhere:
        found_in = ", ".join(str(place + 1) for place in places[:10])
        raise ToolFailed(f"Apart from spaces, old_string occurs at lines {found_in}. Make it unique.")
    for place in reversed(places):
        there = lines[place : place + len(wanted)]
        lines[place : place + len(wanted)] = _moved(new.strip("\n").split("\n") if new else [], wanted, there)
    return "\n".join(lines)


def _alike(lines: Sequence[str], wanted: Sequence[str]) -> list[int]:
    """Return the positions of these lines, without regard to spaces. No two of the matches overlap."""
    looked, sought = [" ".join(line.split()) for line in lines], [" ".join(line.split()) for line in wanted]
    places: list[int] = []
    for at in range(len(looked) - len(sought) + 1):
        if looked[at] != sought[0] or looked[at : at + len(sought)] != sought:
            continue
        if not places or at >= places[-1] + len(sought):
            places.append(at)
    return places


def _moved(new: Sequence[str], wanted: Sequence[str], there: Sequence[str]) -> list[str]:
    """Return the new lines, indented like the lines that were found instead of the wanted ones."""
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
    """Return a hint: the line that is most similar to the first wanted one."""
    first = next(line.strip() for line in wanted if line.strip())
    if len(lines) > MOST_LINES_COMPARED:
        return " Read it again."
    near = difflib.get_close_matches(first, [line.strip() for line in lines], n=1, cutoff=0.7)
    if not near:
        return " Read it again."
    number = next(at for at, line in enumerate(lines, start=1) if line.strip() == near[0])
    return f" Line {number} is similar: {near[0][:200]!r}."


def difference(before: str, after: str, name: str, *, whole: bool = False) -> str:
    """Return a unified diff, which has every character of the change; if that would take too long, only the
    range of the lines, or with `whole` nothing: then it raises `NotShown`."""
    old, new = _lines(before), _lines(after)
    head = 0
    while head < min(len(old), len(new)) and old[head] == new[head]:
        head += 1
    tail = 0
    while tail < min(len(old), len(new)) - head and old[-1 - tail] == new[-1 - tail]:
        tail += 1
    if max(len(old), len(new)) - head - tail > MOST_LINES_COMPARED:
        if whole:
            raise NotShown(f"it changes more than {MOST_LINES_COMPARED} lines")
        return f"{name}: lines {head + 1} to {len(old) - tail} are now {head + 1} to {len(new) - tail}."
    start, around = max(0, head - 3), max(0, tail - 3)
    diff = difflib.unified_diff(
        old[start : len(old) - around], new[start : len(new) - around], name, name, lineterm=""
    )
    return "\n".join(_numbered(line, start) for line in diff) or f"{name}: nothing has changed."


def _lines(text: str) -> list[str]:
    """Return the lines of a text, each with all its characters. The last one tells if no line break follows:
    a diff without that would not tell apart two texts."""
    *lines, rest = text.split("\n")
    return [*lines, f"{rest}\n{NO_LINE_BREAK}"] if rest else lines


def _numbered(line: str, start: int) -> str:
    """Return a diff line of a part with the line numbers of the whole text: `@@ -1,7 +1,8 @@`."""
    if not line.startswith("@@ ") or not start:
        return line
    parts = line.split(" ")
    for at in (1, 2):
        sign, (number, *length) = parts[at][0], parts[at][1:].split(",")
        parts[at] = sign + ",".join([str(int(number) + start), *length])
    return " ".join(parts)
