"""Adapter for an XMPP account."""

from __future__ import annotations

import asyncio
import ssl
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

from hermes_trio.platform import HeldMemory, LinkLost, Memory, command_menu, sole_use

from ..beside import open_beside
from .parsing import Account
from .place import place_in
from .settings import XmppSettings
from .xmpp_link import TRAITS, XmppLink


class XmppAdapter:
    """An adapter for one account."""

    def __init__(self, settings: XmppSettings, *, name: str = "xmpp", account: str = "main") -> None:
        self.name, self.account, self.traits = name, account, TRAITS
        self._settings, self._memory = settings, HeldMemory()
        self._context: ssl.SSLContext | None = None

    @asynccontextmanager
    async def connect(self, memory: Memory | None = None) -> AsyncIterator[XmppLink]:
        """As `RememberingAdapter.connect`. An account has one reader: two would both answer."""
        if _is_on_asyncio():
            raise LinkLost(
                "The library of XMPP cannot be used in a program on asyncio. Run a gateway of its own."
            )
        # It imports trio-asyncio, which changes asyncio for the whole process: not before it is needed.
        from .connection import XmppConnection
        from .library import XmppStream, open_asyncio_loop

        settings, memory = self._settings, memory or self._memory
        if self._context is None:
            self._context = settings.context()
        with sole_use(self.name, settings.address) as alone:
            if not alone:
                raise LinkLost("Another process on this machine uses this account. Stop it, or use another.")
            place = place_in(await memory.recall())
            async with open_asyncio_loop(self.name) as loop:
                stream = XmppStream(settings, self._context, loop, self.name)
                connection = XmppConnection(stream, settings, self._who(), place, memory)
                try:
                    await stream.open(place.session, place.number)
                    await connection.begin()
                    self.traits = replace(TRAITS, finds=connection.has_archive)
                    async with open_beside("the link is left") as nursery:
                        nursery.start_soon(connection.run)
                        yield XmppLink(connection, settings.address, self.traits)
                finally:
                    await stream.close()  # noqa: ASYNC102 - shielded, and for a second at most
                    connection.lost()

    def _who(self) -> Account:
        settings = self._settings
        return Account(
            address=settings.address,
            nick=settings.nick,
            rooms=frozenset(settings.rooms),
            require_mention=settings.require_mention,
            commands=frozenset(command_menu()),
            platform=self.name,
            account=self.account,
        )


def _is_on_asyncio() -> bool:
    """Return True if Trio is a guest of asyncio, where trio-asyncio does not work. Once that is loaded it
    shows its own loops."""
    if "trio_asyncio" in sys.modules:
        return False
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
