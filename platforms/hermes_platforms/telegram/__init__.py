"""Telegram, through the Bot API: direct chats, groups, topics.

adapter          connects a bot
telegram_link    sends and receives
calls            calls of the Bot API, with the outcomes of the contract
incoming         receives
polling          updates by long polling
webhook          updates that Telegram posts to an address of ours
api              one call over HTTP, and its outcome
formatting       Markdown to MarkdownV2                           pure
rich             Markdown to a rich message                       pure
parsing          an update to an event                            pure
payload          the parts of an update that we read              pure
setup            questions of `hermes-trio setup telegram`
checks           checks of `hermes-trio doctor telegram`
trial            a trial without a bot
testing          a Bot API server for tests
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from hermes_trio import ConfigInvalid, PlatformConfig
from hermes_trio.platform import install_command

from ..options import address, check_base_url, check_people, switch

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hermes_trio.platform import Traits

    from .adapter import TelegramAdapter
    from .webhook import Webhook

TOKEN = re.compile(r"\d{3,20}:[\w-]{10,100}", re.ASCII)
SECRET = re.compile(r"[\w-]{16,256}", re.ASCII)
ID = re.compile(r"-?[1-9]\d{0,19}", re.ASCII)
LISTEN = "127.0.0.1:8443"


def from_config(platform: PlatformConfig) -> TelegramAdapter:
    """Return the adapter for `platforms.telegram` of a configuration."""
    ask = "Ask @BotFather for one, and run `hermes-trio setup telegram`."
    if not platform.token:
        raise ConfigInvalid("platforms.telegram.token", "the token is missing", ask)
    if not TOKEN.fullmatch(platform.token):  # not shown: it may be a real token with a typing error
        raise ConfigInvalid("platforms.telegram.token", "it does not look like a bot's token", ask)
    check_base_url("telegram", platform)
    # A user name is no id: its owner can give it up, and somebody else can take it.
    check_people(
        "telegram",
        platform,
        ID.fullmatch,
        "is no Telegram id, which is a number; a user name can change its owner",
        "Leave it out, write to the bot, and `hermes-trio doctor telegram` shows your id.",
    )
    try:
        from .adapter import TelegramAdapter
    except ModuleNotFoundError as error:
        if error.name != "markdown_it":
            raise
        remedy = f"Run `{install_command('telegram')}`."
        raise ConfigInvalid("platforms.telegram", "it needs markdown-it-py", remedy) from error
    return TelegramAdapter(
        platform.token,
        base_url=platform.base_url,
        require_mention=platform.require_mention,
        webhook=webhook_of(platform.options),
        traits=_traits_of(platform),
    )


def _traits_of(platform: PlatformConfig) -> Traits:
    """Return the traits with what the configuration switches on and off."""
    from .telegram_link import CLASSIC, TRAITS

    traits = TRAITS if switch("telegram", platform, "rich_messages", default=True) else CLASSIC
    drafts, reacts = (
        switch("telegram", platform, "drafts", default=True),
        switch("telegram", platform, "reactions", default=False),
    )
    return replace(traits, drafts=drafts, reacts=reacts)


def webhook_of(options: Mapping[str, object]) -> Webhook | None:
    """Return the webhook of the configuration; None for long polling. Raises `ConfigInvalid` for values that
    cannot work."""
    from .webhook import Webhook

    url, secret, listen = (
        str(options.get(key) or "") for key in ("webhook_url", "webhook_secret", "webhook_listen")
    )
    if not url:
        return None
    parts = address(url)
    if parts is None or not parts.path.strip("/") or parts.query or parts.fragment:
        remedy = "Write it whole, with a path: https://bot.example.org/telegram."
        raise ConfigInvalid("platforms.telegram.webhook_url", "Telegram cannot use this address", remedy)
    if not SECRET.fullmatch(secret):
        remedy = "Set 16 to 256 letters and digits, such as `openssl rand -hex 24` writes."
        raise ConfigInvalid(
            "platforms.telegram.webhook_secret",
            "without a strong secret, anybody could send messages",
            remedy,
        )
    host, _, port = (listen or LISTEN).rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 65536:
        remedy = f"Write host and port: {LISTEN}."
        raise ConfigInvalid("platforms.telegram.webhook_listen", "it is no address to listen on", remedy)
    return Webhook(url, secret, host.strip("[]"), int(port), parts.path)
