"""Adapter for a Discord bot: it connects, identifies the bot, and registers its slash commands."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from hermes_trio.platform import (
    CredentialsRefused,
    HeldMemory,
    LinkLost,
    Log,
    Memory,
    Traits,
    command_menu,
    sole_use,
)

from .api import BASE_URL, Denied, DiscordApi, NoAnswer, NotReached, open_api
from .discord_link import TRAITS, DiscordLink
from .gateway import open_gateway
from .parsing import Bot
from .place import place_in
from .session import DIRECT_MESSAGES, GUILD_MESSAGES, GUILDS, MESSAGE_CONTENT, Session

GREET_WITHIN = 30.0
LONGEST_HELP = 100

_COMMAND = re.compile(r"[a-z0-9_-]{1,32}")

log = Log(__name__)


class DiscordAdapter:
    """An adapter for one bot."""

    def __init__(
        self,
        token: str,
        *,
        base_url: str | None = None,
        require_mention: bool = True,
        message_content: bool = False,
        traits: Traits = TRAITS,
        name: str = "discord",
        account: str = "main",
    ) -> None:
        self.name, self.account, self.traits = name, account, traits
        self._token, self._base_url = token, base_url or BASE_URL
        self._require_mention = require_mention
        self._intents = GUILDS | GUILD_MESSAGES | DIRECT_MESSAGES
        self._intents |= MESSAGE_CONTENT if message_content else 0
        self._memory = HeldMemory()

    @asynccontextmanager
    async def connect(self, memory: Memory | None = None) -> AsyncIterator[DiscordLink]:
        """As `RememberingAdapter.connect`. A bot has one reader: two would both answer."""
        memory = memory or self._memory
        with sole_use(self.name, self._token) as alone:
            if not alone:
                raise LinkLost("Another process on this machine uses this bot. Stop it, or use another bot.")
            async with open_api(self._token, self._base_url) as api:
                bot = await self._greet(api)
                place = place_in(await memory.recall())
                session = Session(
                    self._token, self._intents, place.session_id, place.resume_url, place.number, place.number
                )
                async with open_gateway(api, session, self.name) as gateway:
                    yield DiscordLink(api, gateway, bot, place, memory, self.traits)

    async def _greet(self, api: DiscordApi) -> Bot:
        """Get the id and the name of the bot, and register its slash commands."""
        try:
            me = await api.call("GET", "/users/@me", within=GREET_WITHIN)
        except Denied as no:
            if no.status == 401:
                raise CredentialsRefused(self.name) from no
            raise LinkLost(f"Discord refused the connection: {no}.") from no
        except (NotReached, NoAnswer) as error:
            raise LinkLost(f"Discord cannot be reached: {error}.") from error
        if not isinstance(me, dict) or not isinstance(me.get("id"), str):
            raise LinkLost("The server does not identify the bot: is it Discord's API?")
        await _register_commands(api, me["id"])
        return Bot(me["id"], str(me.get("username", "")), self.name, self.account, self._require_mention)


def slash_commands() -> list[dict[str, Any]]:
    """Return the commands of the gateway as Discord registers them. All take the text that may follow."""
    text = {"type": 3, "name": "text", "description": "What follows the command", "required": False}
    return [
        {
            "name": name,
            "description": description[:LONGEST_HELP],
            "type": 1,
            "options": [text],
            "contexts": [0, 1],  # servers, and direct chats with the bot
            "integration_types": [0],
        }
        for name, description in command_menu().items()
        if _COMMAND.fullmatch(name)
    ]


async def _register_commands(api: DiscordApi, bot_id: str) -> None:
    """Replace the commands of the bot where they differ: Discord limits new ones for a day."""
    path = f"/applications/{bot_id}/commands"
    wanted = slash_commands()
    try:
        found = await api.call("GET", path, within=GREET_WITHIN)
        if _help_of(found) != _help_of(wanted):
            await api.call("PUT", path, wanted, within=GREET_WITHIN)
    except (Denied, NotReached, NoAnswer) as error:
        log.warning("slash commands not registered", error=str(error))


def _help_of(commands: Any) -> dict[object, object]:
    if not isinstance(commands, list):
        return {}
    return {one.get("name"): one.get("description") for one in commands if isinstance(one, dict)}
