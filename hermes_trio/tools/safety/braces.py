"""Expansion of braces in a word of a command line. Pure."""

from __future__ import annotations

import re

from .command_line import UnreadableCommand

MOST = 256

_BRACES = re.compile(r"\{([^{}]*,[^{}]*|([a-zA-Z])\.\.([a-zA-Z])(?:\.\.-?\d+)?)\}")


def braced(text: str, mask: str) -> list[tuple[str, str]]:
    """Return the words that a word expands to, each with its quoting mask: `{rm,-rf}` becomes two words."""
    done: list[tuple[str, str]] = []
    waiting, left = [(text, mask)], MOST
    while waiting:
        one, its_mask = waiting.pop()
        found = next((each for each in _BRACES.finditer(one) if its_mask[each.start()] == "u"), None)
        if found is None:
            done.append((one, its_mask))
            continue
        left -= 1
        if not left:
            raise UnreadableCommand("its braces expand to too many words")
        parts = _range(found[2], found[3]) if found[2] else found[1].split(",")
        for part in reversed(parts):
            made = one[: found.start()] + part + one[found.end() :]
            waiting.append((made, "u" * len(made)))
    return done


def _range(first: str, last: str) -> list[str]:
    """Return the letters from one to the other, as in `{a..e}`."""
    start, end = sorted((ord(first), ord(last)))
    return [chr(code) for code in range(start, end + 1)]
