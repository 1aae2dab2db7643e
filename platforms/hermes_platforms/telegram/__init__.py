"""Telegram, through the Bot API: direct chats, groups, topics.

parsing      update → what somebody said             pure
formatting   Markdown → MarkdownV2                   pure
api          one call over HTTP, and what is known of it
adapter      the shell: polling, sending, outcomes
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from hermes_trio import ConfigInvalid, PlatformConfig

if TYPE_CHECKING:
    from .adapter import TelegramAdapter

TOKEN = re.compile(r"\d{3,20}:[\w-]{10,100}", re.ASCII)


def from_config(platform: PlatformConfig) -> TelegramAdapter:
    """The adapter for `platforms.telegram` of a configuration."""
    ask = "Ask @BotFather for one, and run `hermes-trio setup telegram`."
    if not platform.token:
        raise ConfigInvalid("platforms.telegram.token", "a bot has to have a token", ask)
    if not TOKEN.fullmatch(platform.token):  # which is not shown: it may be one with a letter too many
        raise ConfigInvalid("platforms.telegram.token", "it does not look like a bot's token", ask)
    base_url = platform.base_url
    if base_url is not None and not re.match(r"https?://[^\s/]", base_url):
        raise ConfigInvalid(
            "platforms.telegram.base_url", "it is no address of a server", "Write it like http://host:8081."
        )
    try:
        from .adapter import TelegramAdapter
    except ModuleNotFoundError as error:
        if error.name != "markdown_it":
            raise
        remedy = "Install the extra: `pip install 'hermes-trio[telegram]'`."
        raise ConfigInvalid("platforms.telegram", "it needs markdown-it-py", remedy) from error
    return TelegramAdapter(platform.token, base_url=base_url, require_mention=platform.require_mention)
