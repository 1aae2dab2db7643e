"""Text before it is stored in a column, and after it is read from one.

A bad character or bad JSON costs only the value it is in, never the row or the list.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeVar

import msgspec

from ...log import Log

T = TypeVar("T")
Text = TypeVar("Text", str, str | None)

# Case and spaces are ignored, because a model ignores them too.
_LIKE_A_NOTE = re.compile(r"\[(?=\s*system\s+note\s*:)", re.IGNORECASE)

log = Log(__name__)


def disarmed(text: str) -> str:
    """Return `text` with every `[System note:` changed to `(System note:`, so that no text of a person or a
    tool can pass for a note of the gateway. Applied to new text and to replayed text."""
    return _LIKE_A_NOTE.sub("(", text)


def storable(text: Text) -> Text:
    """Return `text` in a form that every database engine can store. A lone surrogate, as error messages and
    models may contain, and a NUL become U+FFFD; a surrogate pair becomes its character."""
    if text is None:
        return text
    if "\0" in text:
        text = text.replace("\0", "\N{REPLACEMENT CHARACTER}")
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def read_stored(text: str | None, read: Callable[[str], T], column: str, **row: object) -> T | None:
    """Return `read(text)`. For an unreadable value return None and log a warning with the fields of its
    `row`: one bad value must not make a whole list unreadable."""
    if text is None:
        return None
    try:
        return read(text)
    except (ValueError, RecursionError, msgspec.MsgspecError) as error:
        log.warning("stored value not readable; ignored", column=column, **row, error=str(error))
        return None
