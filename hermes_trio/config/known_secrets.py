"""The one list of secrets that a gateway knows: from its configuration, its home and its environment.

- From the configuration: the values of keys with a name of a secret, and the variables and headers of MCP
  servers.
- From the home: `web.key`, and every value of `.env`, also in a line that is a comment or has a mistake.
  A value that is evidently a setting, such as a path or a number, is no secret.
- From the environment of the process: the variables with a name of a secret.
- From each address among these: its user and password, and the secrets of its query.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from urllib.parse import parse_qsl, unquote, urlsplit

from ..masking.redaction import Masking
from ..masking.secret_tokens import is_generated, masked_tokens
from ..masking.secret_words import is_secret
from .config_text import parse_env, read_text
from .schema import GatewayConfig, PlatformConfig
from .section import Section, keys

WEB_KEY_FILE = "web.key"

_NO_PASSWORD = ("PWD", "OLDPWD")
"""Variables with the current and the previous directory of a shell."""
_COUNTED = re.compile(r"(?i)tokens|limit|max|timeout|ttl|expir|count|port|interval|seconds")
"""Names of numbers, which are no secrets although a name such as `MAX_TOKENS` contains a word for one."""
_SETTING_NAME = re.compile(
    r"(?i)(?:^|_)(?:model|name|host|hostname|url|uri|address|port|path|dir|directory|file|home|region|zone|tz|lang"
    r"|level|mode|env|environment|user|email|provider|locale|version|shell|editor|term|platform|channel|chat"
    r"|id|allowed|admin|owner|debug|log)s?$"
)
_SETTING_VALUE = re.compile(
    r"(?i)true|false|yes|no|on|off|none|null|auto|always|never|default|enabled|disabled|debug|info|warn(?:ing)?|error"
    r"|critical|production|development|staging|testing|local|localhost"
    r"|\d{0,5}|\d+(?:[.:,-]\d+)+"  # small numbers, versions, times
    r"|(?:~|\.{1,2})?/[\w./-]*|[a-z]:\\[\w.\\ -]*"  # paths
    r"|[a-z][a-z0-9+.-]*://(?:[\w.-]+|\[[0-9a-f:]+\])(?::\d+)?(?:/[\w./-]*)?"  # addresses without a query
    r"|[\w-]+(?:\.[\w-]+)*\.[a-z]{2,12}(?::\d+)?|[\w.+-]+@[\w-]+(?:\.[\w-]+)+"  # hosts, mail
    r"|[a-z]{2}_[a-z]{2}(?:\.utf-?8)?|[a-z]+/[a-z_]+"  # locales, time zones
)
_PLAIN_VALUE = re.compile(r"[\w.,:;/@ *+-]*")
_ENV_LINE = re.compile(
    r"\s*(?:export\s+|#[\s#]*(?:export\s+)?(?=\w+=))?(?P<name>[^\s=:#]+)\s*[=:]\s*(?P<value>\S.*?)\s*"
)
_LONE = re.compile(r"[\s#]*(?P<value>\S*\d\S*)\s*")


def masking_of(home: Path, config: GatewayConfig, environ: Mapping[str, str]) -> Masking:
    """Return the masking of the gateway in a home. Raise `ConfigInvalid` if `.env` cannot be read."""
    return Masking.of([*secrets_of(config, environ), *_secrets_in(home)])


def secrets_of(config: GatewayConfig, environ: Mapping[str, str]) -> Iterator[str]:
    """Yield the secrets of the configuration and of the environment, recognised by their names."""
    yield from _of_config("", _plain(config))
    for server in config.mcp_servers.values():
        for settings in (server.env, server.headers):
            for name, value in settings.items():
                yield from _of_setting(name, value)
    for name, value in environ.items():
        if _is_secret(name, value) and name not in _NO_PASSWORD:
            yield value
        yield from _in_address(value)


def _secrets_in(home: Path) -> Iterator[str]:
    """Yield the secrets in files of the home: the values of `.env`, and the key of the web."""
    path = home / ".env"
    text = read_text(path) or ""
    for name, value in parse_env(text, path)[0].items():
        yield from _of_setting(name, value)
    for line in text.splitlines():
        if found := _ENV_LINE.fullmatch(line):
            yield from _of_setting(found["name"], found["value"].strip("\"'"))
        elif alone := _LONE.fullmatch(line):
            yield from _of_setting("", alone["value"])
    try:
        yield (home / WEB_KEY_FILE).read_text("ascii")
    except (OSError, UnicodeDecodeError):
        return  # no key yet; the web reports one that cannot be used


def _plain(section: Section) -> dict[str, object]:
    """Return a section as plain mappings."""
    plain: dict[str, object] = {}
    for key in keys(type(section)):
        value = getattr(section, key.name)
        if key.section:
            value = _plain(value)
        elif key.named:
            value = {name: _plain(each) for name, each in value.items()}
        plain[key.name] = value
    return plain | dict(section.options) if isinstance(section, PlatformConfig) else plain


def _of_config(name: str, value: object) -> Iterator[str]:
    """Yield the secrets in a value of the configuration."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _of_config(str(key), inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _of_config(name, inner)
    elif value is not None:
        yield from _in_address(str(value))
        if _is_secret(name, str(value)):
            yield from _with_credential(name, str(value))


def _of_setting(name: str, value: str) -> Iterator[str]:
    """Yield the secrets in a setting of `.env` or of an MCP server. Such settings are mostly secrets,
    whatever their names are: each value counts that is not evidently something else."""
    yield from _in_address(value)
    if _is_secret(name, value) or not _is_plain_setting(name, value):
        yield from _with_credential(name, value)


def _is_plain_setting(name: str, value: str) -> bool:
    """Return whether a value is a path, a number, or what the name of the setting says."""
    looks_generated = masked_tokens(value) != value or is_generated(value)
    is_named = _SETTING_NAME.search(name) or _COUNTED.search(name)
    is_plain = _SETTING_VALUE.fullmatch(value) or (is_named and _PLAIN_VALUE.fullmatch(value))
    return bool(is_plain) and not looks_generated


def _is_secret(name: str, value: str) -> bool:
    return is_secret(name) and not (value.isdecimal() and _COUNTED.search(name))


def _with_credential(name: str, value: str) -> Iterator[str]:
    yield value
    if name.casefold().endswith("authorization"):
        yield value.rpartition(" ")[2]  # without the scheme, such as `Bearer`


def _in_address(value: str) -> Iterator[str]:
    """Yield the secrets in an address, if the value is one: the password, a user without a password that is a
    key, and the secrets of the query."""
    if "://" not in value:
        return
    try:
        parts = urlsplit(value)
        password, user = parts.password, parts.username
    except ValueError:
        return
    if password or (user and len(user) >= 16):
        secret = password or user or ""
        yield from (secret, unquote(secret))
    for name, inner in parse_qsl(parts.query):
        if is_secret(name):
            yield inner
