"""Mask secrets in texts, before a model, a transcript, a journal, a log or a page gets them.

A secret is recognised in three ways:

- It is a known secret (`config.known_secrets` collects them). It is masked in every text, also in the
  spelling of an address or of a quoted string.
- It stands after a name of a secret (`secret_names`, with the words of `secret_words`).
- It stands where a secret stands, such as in a header (`secret_places`), or has the shape of one
  (`secret_tokens`).

A `Masking` is a value. `serve` makes one for its gateway and hands it to everything that writes texts.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from urllib.parse import quote, quote_plus

from .secret_names import masked_names
from .secret_places import masked_places
from .secret_tokens import masked_tokens
from .secret_words import MASK, is_secret_field

Redact = Callable[[str], str]

SHORTEST = 6
"""Characters of the shortest known secret that is searched for. A shorter one would be found in many
words."""
SHORTEST_HEAD = 3
"""Characters from which on the end of a piece of text may be the beginning of a secret."""
HALF = 6
"""Characters of the beginning of a secret that are masked if the text ends there."""
SHORTEST_LINE = 16
"""Characters of the shortest line of a secret with several lines that is searched for separately."""

LONGEST_REPEATED = 200
"""Characters of the longest text whose masking is remembered. The same ids and names are masked for the log,
the journal and the page."""

_PLAIN_ID = re.compile(
    r"[0-9a-f]{1,32}|[0-9]{8}_[0-9]{6}_[0-9a-f]{1,8}|[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
)
"""The ids of runs and sessions. No secret that is not a known one looks like that."""


@dataclass(frozen=True, slots=True)
class Masking:
    """The masking of one gateway: of its known secrets, and of text that looks like a secret."""

    spellings: tuple[str, ...] = ()
    """The spellings of the known secrets, the longest first."""
    heads: Mapping[str, Sequence[str]] = field(default_factory=dict, repr=False, compare=False)
    """The spellings by their first characters."""

    @classmethod
    def of(cls, known: Iterable[str]) -> Masking:
        """Return the masking of these known secrets."""
        spellings = {one for secret in known for one in _spelled(secret.strip()) if len(one) >= SHORTEST}
        longest_first = tuple(sorted(spellings, key=lambda one: (-len(one), one)))
        heads: dict[str, list[str]] = {}
        for one in longest_first:
            heads.setdefault(one[:SHORTEST_HEAD], []).append(one)
        return cls(longest_first, heads)

    def knowing(self, secret: str) -> Masking:
        """Return the same masking with one more secret."""
        return Masking.of([*self.spellings, secret])

    def __repr__(self) -> str:
        return f"Masking({len(self.spellings)} spellings)"

    def __call__(self, text: str) -> str:
        """Return the text without known secrets and without text that looks like a secret."""
        known = self.known(text)
        if _PLAIN_ID.fullmatch(known):
            return known
        return _masked_once(known) if len(known) <= LONGEST_REPEATED else _masked(known)

    def known(self, text: str) -> str:
        """Return the text without known secrets."""
        found = self.pattern(text)
        return found.sub(MASK, text) if found else text

    def pattern(self, text: str) -> re.Pattern[str] | None:
        """Return the pattern of the known secrets in a text."""
        # One secret may be a part of another, so all are replaced in one pass, the longest first. Secrets are
        # rare in texts, and a search for each is faster than one pattern of all.
        found = [spelling for spelling in self.spellings if spelling in text]
        return re.compile("|".join(map(re.escape, found))) if found else None


@lru_cache(maxsize=1024)
def _masked_once(text: str) -> str:
    return _masked(text)


def _masked(text: str) -> str:
    return masked_names(masked_tokens(masked_places(text)))


class KnownSecrets:
    """The secrets that one gateway knows. It may add more while it runs, such as a new key."""

    def __init__(self, masking: Masking) -> None:
        self.masking = masking
        """The masking of all secrets that are known now."""

    def learn(self, secret: str) -> None:
        """Add a secret, so that it is masked from now on."""
        self.masking = self.masking.knowing(secret)


@dataclass(slots=True)
class SecretStream:
    """The masking of the known secrets of one text that arrives in pieces, such as the answer of a model.

    What was shown cannot be taken back. So the end of a piece is held back while it may be the beginning of a
    secret: if it has at least `SHORTEST_HEAD` characters in common with one. Everyday text is shown at once.
    """

    secrets: KnownSecrets
    held: str = ""
    """The characters that are held back."""
    _shown: str = ""
    """The last characters that were shown."""

    def feed(self, piece: str, *, ends: bool = False) -> str:
        """Return what can be shown after the next piece; everything if the text `ends` there."""
        masking, done = self.secrets.masking, len(self._shown)
        text = self._shown + self.held + piece
        kept: list[str] = []
        held = _open_end(masking, text, 0)
        pattern = masking.pattern(text)
        for found in pattern.finditer(text) if pattern else ():
            if found.start() >= held:
                break  # it may become a longer secret
            kept += [text[done : max(found.start(), done)], MASK]
            done, held = found.end(), max(held, _open_end(masking, text, found.end()))
        kept.append(text[done : max(done, held)])
        self.held = text[max(done, held) :]
        if ends:
            kept.append(MASK if len(self.held) >= HALF else self.held)
            self.held = ""
        shown = "".join(kept)
        self._shown = "" if ends else (self._shown + shown)[1 - SHORTEST_HEAD :]
        return shown


def _open_end(masking: Masking, text: str, first: int) -> int:
    """Return where the end of a text is the beginning of a known secret; the end of the text if nowhere."""
    if masking.spellings:
        longest = len(masking.spellings[0])
        for at in range(max(first, len(text) - longest), len(text) - SHORTEST_HEAD + 1):
            heads = masking.heads.get(text[at : at + SHORTEST_HEAD], ())
            if any(one.startswith(text[at:]) for one in heads):
                return at
    return len(text)


def redactor(known: Iterable[str]) -> Redact:
    """Return a function that masks these secrets, and text that looks like a secret."""
    return Masking.of(known)


def redacted(redact: Redact, name: str, value: object) -> object:
    """Return a value of any type without secrets, so that it can be logged under a name. A value that is not
    plain becomes text."""
    if not isinstance(value, str):  # most fields are text
        if value is None or isinstance(value, bool | int | float):
            return value
        if isinstance(value, Mapping):
            return {str(key): redacted(redact, str(key), inner) for key, inner in value.items()}
        if isinstance(value, list | tuple | set | frozenset):
            return [redacted(redact, name, inner) for inner in value]
    text = str(value)
    return MASK if text and is_secret_field(name) else redact(text)


def _spelled(secret: str) -> Iterable[str]:
    """Yield the spellings of a secret in a text, an address, JSON and a Python error; and each of its long
    lines, because a tool may show them separately."""
    yield from (secret, quote(secret), quote(secret, safe=""), quote_plus(secret))
    yield from (json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1], repr(secret)[1:-1])
    lines = secret.splitlines()
    if len(lines) > 1:
        yield from (line for line in lines if len(line) >= SHORTEST_LINE)
