"""The link to an XMPP server: what the gateway sends and receives.

A message is sent once the server has acknowledged it. It is plain text: programs of people show `*bold*` and
code in backticks as such (XEP-0393), unless the message says that nothing in it is markup.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

import trio.lowlevel

from hermes_trio.platform import BaseLink, LinkLost, MessageEvent, Outgoing, Refused, Traits

from .settings import ADDRESS
from .stanzas import composing, id_of, message_of

if TYPE_CHECKING:
    from .connection import XmppConnection

TRAITS = Traits(limit=8000, counting="bytes", typing=True, finds=True, remembers=True)
"""A server must take stanzas of 10,000 bytes, and the usual ones take what XML makes of 8000."""


class XmppLink(BaseLink):
    """A link to a server, until the connection is lost."""

    def __init__(self, connection: XmppConnection, address: str, traits: Traits) -> None:
        super().__init__(traits)
        self.connection, self._address = connection, address

    def receive(self) -> AsyncIterator[MessageEvent]:
        """As `Link.receive`."""
        return Incoming(self.connection)

    async def send(self, message: Outgoing) -> str | None:
        """As `Link.send`."""
        if not ADDRESS.fullmatch(message.chat_id.partition("/")[0]):
            raise Refused(f"{message.chat_id[:60]!r} is no address of XMPP.")
        is_room = self.connection.account.is_room(message.chat_id)
        stanza = message_of(message, self._address, is_room=is_room)
        await self.connection.say(stanza, is_room=is_room)
        return stanza.get("id")

    async def _typing(self, chat_id: str, thread_id: str | None) -> None:
        await trio.lowlevel.checkpoint()
        if not self.connection.account.is_room(chat_id):
            self.connection.show(composing(chat_id))

    async def _find(self, chat_id: str, key: str, thread_id: str | None) -> str | None:
        stanza_id = id_of(key, chat_id, self._address)
        is_room = self.connection.account.is_room(chat_id)
        found = await self.connection.history.has(chat_id, stanza_id, is_room=is_room)
        return stanza_id if found else None


class Incoming:
    """Iterator of events. A cancelled call loses nothing."""

    def __init__(self, connection: XmppConnection) -> None:
        self._connection = connection
        self._is_handed_out = False

    def __aiter__(self) -> Incoming:
        return self

    async def __anext__(self) -> MessageEvent:
        await trio.lowlevel.checkpoint()
        connection = self._connection
        if self._is_handed_out:  # the gateway asks for the next one: this one is stored
            self._is_handed_out = False
            connection.stored()
        while not connection.waiting and connection.stream.loss is None:
            await connection.changed()
        if connection.stream.loss is not None:
            raise LinkLost(str(connection.stream.loss))
        self._is_handed_out = True
        return connection.waiting[0].event
