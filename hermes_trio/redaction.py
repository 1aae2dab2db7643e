"""What must never be read by those who read a log: recognised in any text, and masked.

A secret comes into a text in three ways, and each is looked for. It is one we know, from the configuration
or the environment: those are masked wherever they occur, also as they look in an address or in quotes. It
stands behind a name that says so: `password=`, `Authorization:`. Or it looks like nothing else: tokens of
the large providers begin with letters of their own, private keys have a frame.

Rejected: to mask everything long and random, because ids of runs and messages are, and a log without them
tells nothing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from urllib.parse import quote, quote_plus

from .config import MASK, GatewayConfig, PlatformConfig, Section, is_secret, keys, masked

Redact = Callable[[str], str]

SHORTEST = 6
"""A secret of fewer characters is not looked for by its text: it would be found in half of all words."""

_NAME = r"token(?!s)|secret|passw|passphrase|api[_-]?key|access[_-]?key|credential|signature"
_NO_PASSWORD = ("PWD", "OLDPWD")
"""Where a shell is and was."""
_FIELD = re.compile(rf"{_NAME}|cookie|authorization", re.IGNORECASE)
_SHAPES = tuple(
    (re.compile(pattern, re.DOTALL), put)
    for pattern, put in (
        (r"-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----.*?(?:-----END [A-Z ]{0,40}PRIVATE KEY-----|\Z)", MASK),
        (r"(?i)\b(authorization[\"']?\s*[:=]\s*[\"']?)(?:[a-z]+\s+)?[^\s\"',]+", rf"\1{MASK}"),
        (r"(?i)\b((?:set-)?cookie[\"']?\s*[:=]\s*[\"']?)[^\n\"']+", rf"\1{MASK}"),
        (r"(?i)\b(bearer\s+)[\w.~+/=-]{8,}", rf"\1{MASK}"),
        # Providers of models, code, chats and clouds; a bot of Telegram; one of Discord; a JSON web token.
        (
            r"\b(?:sk-|sk_|rk_|gh[pousr]_|github_pat_|glpat-|xox[a-z]-|xapp-|AIza|AKIA|ASIA|hf_|gsk_|xai-|npm_"
            r"|pypi-|ya29\.|syt_)[\w.-]{8,}",
            MASK,
        ),
        (r"(?<!\d)\d{6,12}:[\w-]{30,}", MASK),
        (r"\b[MNO][\w-]{23,27}\.[\w-]{6}\.[\w-]{27,}", MASK),
        (r"\beyJ[\w-]{8,}\.[\w-]{8,}(?:\.[\w-]*)?", MASK),
        (r"(hooks\.slack\.com/services/|/api/webhooks/\d{1,30}/)[\w/-]+", rf"\1{MASK}"),
        (
            rf"(?i)((?:{_NAME})[\w-]{{0,40}}[\"']?\s*[=:]\s*[\"']?)[^\s\"'&,;)}}\]]{{4,}}",
            rf"\1{MASK}",
        ),
    )
)


def masking(known: Iterator[str]) -> Redact:
    """A function that masks these secrets, and leaves alone what only looks like one."""
    spellings = {one for secret in known if len(secret) >= SHORTEST for one in _spelled(secret)}
    # The longest first: one secret may be a part of another.
    ours = re.compile("|".join(map(re.escape, sorted(spellings, key=len, reverse=True))) or r"(?!)")
    return lambda text: ours.sub(MASK, text)


def redactor(known: Iterator[str]) -> Redact:
    """A function that masks these secrets, and whatever looks like one."""
    mask = masking(known)

    def redact(text: str) -> str:
        text = mask(text)
        for shape, put in _SHAPES:
            text = shape.sub(put, text)
        return str(masked("", text))

    return redact


def redacted(redact: Redact, name: str, value: object) -> object:
    """A value of any kind as it may be logged under a name; what is no plain value becomes text."""
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, Mapping):
        return {str(key): redacted(redact, str(key), inner) for key, inner in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [redacted(redact, name, inner) for inner in value]
    return MASK if value and _FIELD.search(name) else redact(str(value))


def secrets_of(config: GatewayConfig, environ: Mapping[str, str]) -> Iterator[str]:
    """Every secret that the configuration and the environment hold, as far as their names tell."""
    yield from _secrets("", _plain(config))
    for name, value in environ.items():
        if is_secret(name) and name not in _NO_PASSWORD and not value.isdecimal():
            yield value


def _plain(section: Section) -> dict[str, object]:
    plain: dict[str, object] = {}
    for key in keys(type(section)):
        value = getattr(section, key.name)
        if key.section:
            value = _plain(value)
        elif key.named:
            value = {name: _plain(each) for name, each in value.items()}
        plain[key.name] = value
    return plain | dict(section.options) if isinstance(section, PlatformConfig) else plain


def _secrets(name: str, value: object) -> Iterator[str]:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _secrets(str(key), inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _secrets(name, inner)
    elif is_secret(name) and value is not None:
        yield str(value)
        if name.casefold() == "authorization":
            yield str(value).rpartition(" ")[2]  # without the word in front that says of what kind it is


def _spelled(secret: str) -> Iterator[str]:
    """A secret as it looks in a text, an address, JSON and a Python error."""
    yield from (secret, quote(secret), quote(secret, safe=""), quote_plus(secret))
    yield from (json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1], repr(secret)[1:-1])
