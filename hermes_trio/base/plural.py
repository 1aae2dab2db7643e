"""Numbers with their nouns."""

from __future__ import annotations


def counted(count: int, one: str, many: str = "") -> str:
    """Return the number with its noun: `1 turn`, `2 turns`; `many` is for nouns that take no `s`."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"
