"""Webhooks: programs that call the agent, and that get its answers.

adapter        listens, and opens the connections to those who get answers
listener       a request: verified, made an event, answered once the event is stored
webhook_link   posts answers, signed
rate           how many requests a route takes
signatures     who has sent a request                            pure
templates      the text of a message from the data of a request  pure
parsing        a request to an event                             pure
settings       the address and the routes
setup          questions of `hermes-trio setup webhook`
checks         checks of `hermes-trio doctor webhook`
trial          a trial on this machine
testing        a program for tests that calls webhooks and gets answers
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from hermes_trio import ConfigInvalid, PlatformConfig

from ..options import address
from .settings import DEFAULT_TEXT, Route, WebhookSettings
from .signatures import SCHEMES

if TYPE_CHECKING:
    from .adapter import WebhookAdapter

LISTEN = "127.0.0.1:8644"
SHORTEST_SECRET = 16
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
_KEYS = frozenset(
    {"secret", "scheme", "text", "chat", "user", "only", "per_minute", "answer", "answer_secret"}
)


def from_config(platform: PlatformConfig) -> WebhookAdapter:
    """Return the adapter for `platforms.webhook` of a configuration."""
    settings = settings_of(platform)
    from .adapter import WebhookAdapter

    return WebhookAdapter(settings)


def settings_of(platform: PlatformConfig) -> WebhookSettings:
    """Return the settings of a configuration. Raises `ConfigInvalid` for values that cannot work."""
    if platform.allow_from not in ((), "all") or platform.allow_admin_from:
        raise ConfigInvalid(
            "platforms.webhook.allow_from",
            "a caller is known by the secret of its route, so a list of people has no use",
            "Leave allow_from and allow_admin_from out.",
        )
    options = dict(platform.options)
    host, port = _listen(options.pop("listen", LISTEN))
    routes = options.pop("routes", {"default": {}})
    if not isinstance(routes, Mapping) or not routes:
        raise _invalid(
            "routes", "it is no mapping of names to routes", "Write a name with a secret below it."
        )
    if unknown := [key for key in options if key not in _KEYS]:
        raise _invalid(str(unknown[0]), "there is no such key", f"Use {', '.join(sorted(_KEYS))}.")
    return WebhookSettings(
        host=host,
        port=port,
        routes={str(name): _route(str(name), one, options) for name, one in routes.items()},
    )


def _listen(value: object) -> tuple[str, int]:
    host, _, port = str(value).rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise _invalid("listen", "it is no address to listen on", f"Write host and port: {LISTEN}.")
    return host.strip("[]"), int(port)


def _route(name: str, own: object, shared: Mapping[str, object]) -> Route:
    """Return a route. What it does not say is that of all routes."""
    key = f"routes.{name}"
    if not _NAME.fullmatch(name):
        raise _invalid(key, "it is no name of a route", "Use small letters, digits, - and _.")
    if not isinstance(own, Mapping):
        raise _invalid(key, "it is no mapping", "Write its keys below its name.")
    if unknown := [one for one in own if one not in _KEYS]:
        raise _invalid(f"{key}.{unknown[0]}", "there is no such key", f"Use {', '.join(sorted(_KEYS))}.")
    values = {**shared, **own}
    secret, scheme = _text(values, key, "secret"), values.get("scheme", "github")
    if len(secret) < SHORTEST_SECRET:
        remedy = "Set 16 characters or more, such as `openssl rand -hex 24` writes, here and at the caller."
        raise _invalid(f"{key}.secret", "without a strong secret, anybody could call the agent", remedy)
    if scheme not in SCHEMES:
        raise _invalid(f"{key}.scheme", "it is no known scheme", f"Write one of {', '.join(SCHEMES)}.")
    per_minute, only = values.get("per_minute", 30), values.get("only", ())
    if type(per_minute) is not int or not 0 < per_minute <= 10_000:
        raise _invalid(f"{key}.per_minute", "it is not between 1 and 10,000", "Leave it out for 30.")
    if not isinstance(only, list | tuple) or not all(isinstance(one, str) for one in only):
        raise _invalid(f"{key}.only", "it is no list of events", "Write one such as [push, pull_request].")
    answer = _text(values, key, "answer") or None
    if answer is not None and address(answer) is None:
        raise _invalid(f"{key}.answer", "it is no address", "Write it whole: https://example.org/answers.")
    return Route(
        secret=secret,
        scheme=scheme,
        text=_text(values, key, "text") or DEFAULT_TEXT,
        chat=_text(values, key, "chat"),
        user=_text(values, key, "user"),
        only=tuple(only),
        per_minute=per_minute,
        answer=answer,
        answer_secret=_text(values, key, "answer_secret") or secret,
    )


def _text(values: Mapping[str, object], route: str, key: str) -> str:
    value = values.get(key, "")
    if not isinstance(value, str):
        raise _invalid(f"{route}.{key}", "it is not a text", "Put it into quotation marks.")
    return value


def _invalid(key: str, problem: str, remedy: str) -> ConfigInvalid:
    return ConfigInvalid(f"platforms.webhook.{key}", problem, remedy)
