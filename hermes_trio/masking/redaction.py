"""What must never be read by a model, in a transcript, a journal, a log or on a page: recognised in any text,
and masked.

A secret comes into a text in three ways, and each is looked for. It is one we know (`known_secrets` collects
them): those are masked wherever they occur, also as they are written in an address or in quotes. It stands
after a name that says so (`secret_names`). Or it looks like nothing else (`secret_shapes`).

A `Masking` is a value. `serve` builds one for its gateway, and whatever writes a text is handed it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from urllib.parse import quote, quote_plus

from ..config.section import MASK
from .secret_names import masked_names
from .secret_shapes import masked_shapes

Redact = Callable[[str], str]

SHORTEST = 6
"""A secret of fewer characters is not looked for by its text: it would be found in half of all words."""
SHORTEST_LINE = 16
"""Of a secret of several lines, a line of so many characters is looked for by itself."""

_FIELD = re.compile(
    r"token(?!s)|secret|passw|passphrase|api[_-]?key|access[_-]?key|credential|signature|cookie|authorization",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Masking:
    """Masks the secrets of one gateway, and whatever looks like a secret."""

    spellings: tuple[str, ...] = ()
    """How the known secrets may be written, the longest first."""

    @classmethod
    def of(cls, known: Iterable[str]) -> Masking:
        """The masking that knows these secrets."""
        spellings = {one for secret in known for one in _spelled(secret.strip()) if len(one) >= SHORTEST}
        return cls(tuple(sorted(spellings, key=lambda one: (-len(one), one))))

    def knowing(self, secret: str) -> Masking:
        """The same masking with one more secret."""
        return Masking.of([*self.spellings, secret])

    def __repr__(self) -> str:
        return f"Masking({len(self.spellings)} spellings)"

    def __call__(self, text: str) -> str:
        """The text without known secrets and without what looks like one."""
        return masked_names(masked_shapes(self.known(text)))

    def known(self, text: str) -> str:
        """The text without known secrets."""
        # One secret may be a part of another: all that occur are replaced in one pass, the longest first.
        # Hardly ever does one occur, and to look for each is faster than a pattern of them all.
        there = [spelling for spelling in self.spellings if spelling in text]
        return re.sub("|".join(map(re.escape, there)), MASK, text) if there else text


def redactor(known: Iterable[str]) -> Redact:
    """A function that masks these secrets, and whatever looks like one."""
    return Masking.of(known)


def redacted(redact: Redact, name: str, value: object) -> object:
    """A value of any kind as it may be logged under a name; what is no plain value becomes text."""
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, Mapping):
        return {str(key): redacted(redact, str(key), inner) for key, inner in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [redacted(redact, name, inner) for inner in value]
    return MASK if value and _FIELD.search(name) else redact(str(value))


def _spelled(secret: str) -> Iterable[str]:
    """A secret as it is written in a text, an address, JSON and a Python error; and each long line of it, for
    a tool may show them one by one."""
    yield from (secret, quote(secret), quote(secret, safe=""), quote_plus(secret))
    yield from (json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1], repr(secret)[1:-1])
    lines = secret.splitlines()
    if len(lines) > 1:
        yield from (line for line in lines if len(line) >= SHORTEST_LINE)
