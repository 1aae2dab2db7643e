"""Text on its way into a column and out of it: neither a bad character nor bad JSON takes more with it
than itself."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeVar

import msgspec

from ...log import Log

T = TypeVar("T")
Text = TypeVar("Text", str, str | None)

# A model reads what looks like a note as one, so spelling and spaces make no difference.
_LIKE_A_NOTE = re.compile(r"\[(?=\s*system\s+note\s*:)", re.IGNORECASE)

log = Log(__name__)


def disarmed(text: str) -> str:
    """`text` with nothing in it that could pass for a note of ours: `[System note:` becomes
    `(System note:`. For all that people and tools say, when it is replayed as when it is new."""
    return _LIKE_A_NOTE.sub("(", text)


def storable(text: Text) -> Text:
    """`text` as SQLite can keep it. Half a character, which error messages and models may contain, becomes
    the sign for that; two halves that belong together become their character."""
    if text is None:
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def read_stored(text: str | None, read: Callable[[str], T], column: str, **row: object) -> T | None:
    """What `read` makes of stored text. What it cannot read is None, and reported with the `row` it is in:
    one bad value must not make a whole list unreadable."""
    if text is None:
        return None
    try:
        return read(text)
    except (ValueError, RecursionError, msgspec.MsgspecError) as error:
        log.warning(
            "a stored value cannot be read; going on without it", column=column, **row, error=str(error)
        )
        return None
