"""Adapter for webhooks: it listens for requests, and posts answers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial

import trio

from hermes_trio import World
from hermes_trio.platform import LinkLost, Traits

from ..beside import open_beside
from ..http_calls import open_http
from .listener import Arrivals, WebhookListener
from .settings import WebhookSettings
from .webhook_link import TRAITS, WebhookLink

OpenListeners = Callable[[str, int], Awaitable[Sequence[trio.SocketListener]]]

THIS_WORLD = World()


async def open_listeners(host: str, port: int) -> Sequence[trio.SocketListener]:
    """Listen at an address. Raises `LinkLost`."""
    try:
        return await trio.open_tcp_listeners(port, host=host)
    except OSError as error:
        raise LinkLost(f"Webhooks cannot listen on {host}:{port}: {error.strerror}.") from error


class WebhookAdapter:
    """An adapter for the routes of one address."""

    def __init__(
        self,
        settings: WebhookSettings,
        *,
        listen: OpenListeners = open_listeners,
        world: World = THIS_WORLD,
        name: str = "webhook",
        account: str = "main",
    ) -> None:
        self.name, self.account, self.settings = name, account, settings
        self.traits: Traits = TRAITS
        self._listen, self._now = listen, world.time

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[WebhookLink]:
        """As `Adapter.connect`."""
        settings, arrivals = self.settings, Arrivals()
        listener = WebhookListener(settings, arrivals, self._now, self.name, self.account)
        answered = {route.answer: route.answer_secret for route in settings.routes.values() if route.answer}
        async with AsyncExitStack() as clients:
            calls = {
                url: await clients.enter_async_context(open_http(url, secret))
                for url, secret in answered.items()
            }
            listeners = await self._listen(settings.host, settings.port)
            async with open_beside("the listener is closed") as nursery:
                await nursery.start(partial(trio.serve_listeners, listener.serve, list(listeners)))
                try:
                    yield WebhookLink(arrivals, settings.routes, calls, self._now)
                finally:
                    arrivals.end()
