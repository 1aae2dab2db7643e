"""Adapter for a Slack app: it identifies the app and opens Socket Mode."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from hermes_trio.platform import CredentialsRefused, LinkLost, Traits, command_menu, sole_use

from .api import BASE_URL, Denied, NoAnswer, NotReached, SlackApi, open_api
from .incoming import Threads
from .parsing import App
from .slack_link import TRAITS, SlackLink
from .socket_mode import open_socket_mode

GREET_WITHIN = 30.0


class SlackAdapter:
    """An adapter for one app in one workspace."""

    def __init__(
        self,
        token: str,
        app_token: str,
        *,
        base_url: str | None = None,
        require_mention: bool = True,
        reply_in_thread: bool = True,
        traits: Traits = TRAITS,
        name: str = "slack",
        account: str = "main",
    ) -> None:
        self.name, self.account, self.traits = name, account, traits
        self._token, self._app_token, self._base_url = token, app_token, base_url or BASE_URL
        self._require_mention, self._reply_in_thread = require_mention, reply_in_thread
        self._threads: Threads = {}

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[SlackLink]:
        """As `Adapter.connect`. An app has one reader: Slack divides the events among several."""
        with sole_use(self.name, self._app_token) as alone:
            if not alone:
                raise LinkLost("Another process on this machine uses this app. Stop it, or use another app.")
            async with (
                open_api(self._token, self._base_url) as api,
                open_api(self._app_token, self._base_url) as app_api,
            ):
                app = await self._greet(api)
                async with open_socket_mode(app_api, self.name) as socket_mode:
                    yield SlackLink(api, socket_mode, app, self._threads, self.traits)

    async def _greet(self, api: SlackApi) -> App:
        """Get the identity of the app."""
        try:
            me = await api.call("auth.test", within=GREET_WITHIN)
        except Denied as no:
            if no.refuses_token:
                raise CredentialsRefused(self.name) from no
            raise LinkLost(f"Slack refused the connection: {no}.") from no
        except (NotReached, NoAnswer) as error:
            raise LinkLost(f"Slack cannot be reached: {error}.") from error
        if not isinstance(me.get("user_id"), str):
            raise LinkLost("The server does not identify the app: is it Slack?")
        return App(
            me["user_id"],
            platform=self.name,
            account=self.account,
            require_mention=self._require_mention,
            reply_in_thread=self._reply_in_thread,
            commands=frozenset(command_menu()),
        )
