"""Adapter for a Telegram bot: it connects, identifies the bot, and sets its command menu."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from hermes_trio.platform import CredentialsRefused, LinkLost, Log, Traits, command_menu, sole_use

from .api import BASE_URL, Api, Denied, NoAnswer, NotReached, open_api
from .parsing import Bot
from .polling import Polling
from .telegram_link import TRAITS, TelegramLink
from .webhook import Webhook, open_webhook, set_webhook_parameters

GREET_WITHIN = 30.0

_COMMAND = re.compile(r"[a-z0-9_]{1,32}")

log = Log(__name__)


class TelegramAdapter:
    """An adapter for one bot."""

    def __init__(
        self,
        token: str,
        *,
        base_url: str | None = None,
        require_mention: bool = True,
        webhook: Webhook | None = None,
        traits: Traits = TRAITS,
        name: str = "telegram",
        account: str = "main",
    ) -> None:
        self.name, self.account, self.traits = name, account, traits
        self._token, self._base_url = token, base_url or BASE_URL
        self._require_mention, self._webhook = require_mention, webhook

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[TelegramLink]:
        """As `Adapter.connect`. A bot has one reader: two readers would take each other's messages."""
        with sole_use(self.name, self._token) as alone:
            if not alone:
                raise LinkLost("Another process on this machine uses this bot. Stop it, or use another bot.")
            async with open_api(self._token, self._base_url) as api:
                if self._webhook is None:
                    # While a webhook is set, polling gets no updates. Updates that wait are kept.
                    bot = await self._greet(api, "deleteWebhook", {})
                    yield TelegramLink(api, bot, Polling(api, self.name), self.traits)
                    return
                async with open_webhook(self._webhook, self.name) as updates:
                    bot = await self._greet(api, "setWebhook", set_webhook_parameters(self._webhook))
                    yield TelegramLink(api, bot, updates, self.traits)

    async def _greet(self, api: Api, method: str, params: Mapping[str, object]) -> Bot:
        """Get the id and the name of the bot, and set the way in which updates come and the command menu."""
        try:
            me = await api.call("getMe", {}, within=GREET_WITHIN)
            await api.call(method, params, within=GREET_WITHIN)
        except Denied as no:
            if no.refuses_token:
                raise CredentialsRefused(self.name) from no
            raise LinkLost(f"Telegram refused the connection: {no}.") from no
        except (NotReached, NoAnswer) as error:
            raise LinkLost(f"Telegram cannot be reached: {error}.") from error
        await _offer_commands(api)
        try:
            bot_id, username = int(me["id"]), str(me.get("username", ""))
        except (TypeError, KeyError, ValueError, AttributeError):
            raise LinkLost("The server does not identify the bot: is it a Bot API server?") from None
        return Bot(bot_id, username, self.name, self.account, self._require_mention)


async def _offer_commands(api: Api) -> None:
    menu = [
        {"command": name, "description": description[:256]}
        for name, description in command_menu().items()
        if _COMMAND.fullmatch(name)
    ]
    try:
        await api.call("setMyCommands", {"commands": menu}, within=GREET_WITHIN)
    except (Denied, NotReached, NoAnswer) as error:
        log.warning("command menu not set", error=str(error))
