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
from dataclasses import replace
from typing import TYPE_CHECKING

from hermes_trio import ConfigInvalid, PlatformConfig
from hermes_trio.platform import install_command

from ..options import check_base_url, check_people, switch

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
    check_base_url("discord", platform)
    # A name is no id: its owner can change it, and somebody else can take it.
    check_people(
        "discord",
        platform,
        ID.fullmatch,
        "is no Discord id, which is a number; a name can change its owner",
        "In Discord: Settings, Advanced, Developer Mode; then right-click the person, Copy User ID.",
    )
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
        traits=replace(TRAITS, reacts=switch("discord", platform, "reactions", default=False)),
    )


def reads_content(platform: PlatformConfig) -> bool:
    """Return True if the bot asks for the content of messages that do not mention it."""
    return switch("discord", platform, "message_content", default=not platform.require_mention)
