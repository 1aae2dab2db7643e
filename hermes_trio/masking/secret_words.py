"""The one list of words that name a secret, and the search for them in a text. Pure functions.

The configuration, its log fields, and the masking of texts recognise a name by these words. What commands get
of our environment is a list of harmless names instead (`command_environment`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import lru_cache

MASK = "***"
NEXT_LINE = r"\r?\n(?:(?:[\w./~-]{1,120}:)?\d{1,9}[|:-])?"
"""Pattern of the end of a line, with the number of the next one if a tool shows it."""

KINDS_OF_KEY = """
    api app application access account private preshared signing encryption shared master auth
    license client consumer subscription webhook web service storage ssh admin bot deploy jwt hmac
    aes secret
"""
"""Words before `key` that make it a secret. A key of a mapping and a key on a keyboard are none."""

STRONG = (
    r"token(?!s|iz|[_-]?(?:count|limit|type|ur[il]|file|path|name|len|expir|ttl|usage|budget|endpoint|index))"
    r"|secret(?!s\b|ary|[_-]?(?:name|file|path|ur[il]|ref)|s?manager)"
    r"|passw(?:or[dt]|d)?+(?![_-]?(?:file|path|stdin|reset|ur[il]|hint|length|policy|expir))|passphrase|mnemonic"
    r"|(?<![a-z])(?:pass|pwd|sig|auth|psk)(?![a-z])"
    rf"|(?:{'|'.join(f'(?<={kind})|(?<={kind}[_. -])' for kind in KINDS_OF_KEY.split())})"
    r"key(?!s|board|[_-]?(?:id\b|file|path|name|length))"
    r"|credential(?!s?[_-]?(?:file|path|type))|signature"
)
"""Pattern of the words after which every value is a secret. It matches at the place of a word of
`STRONG_WORDS`."""
STRONG_WORDS = ("token", "secret", "pass", "mnemonic", "pwd", "sig", "auth", "psk", "credential", "key")

_NAME = re.compile(
    r"(?i:token|secret|passw|passphrase|mnemonic|pwd|credential|cookie|bearer|authorization|private|signing|signature"
    r"|hook_?url|(?:api|access)[_-]?key|(?:^|[_-])(?:auth|key|pw|pass|psk|pin)$)|[a-z]Key$"
)
_LOG_FIELD = re.compile(
    r"token(?!s)|secret|passw|passphrase|api[_-]?key|access[_-]?key|credential|signature|cookie|authorization",
    re.IGNORECASE,
)


def is_secret(key: str) -> bool:
    """Return whether the value of a key or a variable with this name must never be shown. `apiKey` is such a
    name; `keys` and `monkey` are not."""
    return _NAME.search(key) is not None


@lru_cache(maxsize=1024)
def is_secret_field(name: str) -> bool:
    """Return whether the value of a log field with this name is never shown. Unlike in a configuration,
    numbers of tokens and keys of sessions are logged."""
    return _LOG_FIELD.search(name) is not None


def lowered(text: str) -> str:
    """Return the text in small letters, with every character in its place."""
    low = text.lower()
    return low if len(low) == len(text) else "".join(c if len(c.lower()) > 1 else c.lower() for c in text)


def places(low: str, words: Iterable[str]) -> list[int]:
    """Return where one of these words begins in a text in small letters, in order. To look for plain words
    first is ten times faster than to try a pattern at every character."""
    found: set[int] = set()
    for word in words:
        at = low.find(word)
        while at >= 0:
            found.add(at)
            at = low.find(word, at + 1)
    return sorted(found)


def masked_after(
    text: str,
    words: Iterable[str],
    pattern: re.Pattern[str],
    end: Callable[[str, re.Match[str]], int] | None = None,
) -> str:
    """Return the text with `***` in place of the group `secret` of each match of the pattern that begins at
    one of these words. `end`, if given, returns the end of the secret that begins at the end of the match;
    the same place if there is none."""
    kept: list[str] = []
    done = 0
    for at in places(lowered(text), words):
        found = pattern.match(text, at) if at >= done else None
        if found is None:
            continue
        start, stop = found.span("secret") if end is None else (found.end(), end(text, found))
        if stop > start:
            kept += [text[done:start], MASK]
            done = stop
    return "".join(kept) + text[done:] if kept else text
