"""Discord: direct chats, servers, threads.

adapter          connects a bot
discord_link     sends and receives
calls            calls of Discord's API, with the outcomes of the contract
incoming         events of people, and what was missed in an outage
gateway          the connection to Discord's gateway
session          the session of the gateway: frames in, frames out   pure
place            how far a bot has read                               pure
api              one call over HTTP, and its outcome
buckets          rate limits                                          pure
formatting       Markdown to Discord's Markdown                       pure
parsing          what Discord dispatches to events                    pure
payload          the parts of payloads that we read                   pure
setup            questions of `hermes-trio setup discord`
checks           checks of `hermes-trio doctor discord`
trial            a trial without a bot
testing          a Discord server for tests
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from hermes_trio import ConfigInvalid, PlatformConfig
from hermes_trio.platform import install_command

if TYPE_CHECKING:
    from .adapter import DiscordAdapter

TOKEN = re.compile(r"[\w-]{8,100}\.[\w-]{4,20}\.[\w-]{20,100}", re.ASCII)
ID = re.compile(r"\d{1,20}", re.ASCII)


def from_config(platform: PlatformConfig) -> DiscordAdapter:
    """Return the adapter for `platforms.discord` of a configuration."""
    ask = "Run `hermes-trio setup discord`, which tells where it is."
    if not platform.token:
        raise ConfigInvalid("platforms.discord.token", "the token is missing", ask)
    if not TOKEN.fullmatch(platform.token):  # not shown: it may be a real token with a typing error
        raise ConfigInvalid("platforms.discord.token", "it does not look like a bot's token", ask)
    if platform.base_url is not None and not _is_address(platform.base_url):
        raise ConfigInvalid(
            "platforms.discord.base_url", "it is no address of a server", "Write it like http://host:8081."
        )
    _check_ids("allow_from", () if platform.allow_from == "all" else platform.allow_from)
    _check_ids("allow_admin_from", platform.allow_admin_from)
    try:
        from .adapter import DiscordAdapter
        from .discord_link import TRAITS
    except ModuleNotFoundError as error:
        if error.name not in ("markdown_it", "websockets"):
            raise
        remedy = f"Run `{install_command('discord')}`."
        raise ConfigInvalid("platforms.discord", f"it needs {error.name}", remedy) from error
    return DiscordAdapter(
        platform.token,
        base_url=platform.base_url,
        require_mention=platform.require_mention,
        message_content=reads_content(platform),
        traits=replace(TRAITS, reacts=_switch(platform.options, "reactions", default=False)),
    )


def reads_content(platform: PlatformConfig) -> bool:
    """Return True if the bot asks for the content of messages that do not mention it."""
    return _switch(platform.options, "message_content", default=not platform.require_mention)


def _switch(options: Mapping[str, object], key: str, *, default: bool) -> bool:
    value = options.get(key, default)
    if not isinstance(value, bool):
        raise ConfigInvalid(
            f"platforms.discord.{key}", "it is neither true nor false", "Write true or false."
        )
    return value


def _check_ids(key: str, ids: Iterable[str]) -> None:
    """Raise `ConfigInvalid` for a value that is no id. A name is none: its owner can change it, and somebody
    else can take it."""
    for one in ids:
        if not ID.fullmatch(one):
            raise ConfigInvalid(
                f"platforms.discord.{key}",
                f"{one[:60]!r} is no Discord id, which is a number; a name can change its owner",
                "In Discord: Settings, Advanced, Developer Mode; then right-click the person, Copy User ID.",
            )


def _is_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return bool(parts.hostname and parts.port != 0 and re.fullmatch(r"https?://\S+", url))
    except ValueError:
        return False
