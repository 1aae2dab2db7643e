"""The link to IRC: what the gateway sends and receives, in lines of the protocol.

A message becomes as many lines as it has, and more if one is too long. The server takes a few of them, says
that it has, and gets the next. An answer is a PRIVMSG; a notice of the gateway is a NOTICE, which no program
on IRC answers.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

import trio.lowlevel

from hermes_trio.platform import (
    BaseLink,
    LinkLost,
    MessageEvent,
    NotSent,
    OutcomeUnknown,
    Outgoing,
    PlatformError,
    Refused,
    Traits,
)

from .connection import IrcConnection
from .formatting import to_irc
from .pace import BURST
from .parsing import event_of
from .splitting import packed, pieces

TRAITS = Traits(limit=400, counting="bytes", dialect="markdown", preformatted=True, redelivers=False)


class IrcLink(BaseLink):
    """A link to a server, until the connection is lost."""

    def __init__(self, connection: IrcConnection) -> None:
        super().__init__(TRAITS)
        self.connection = connection

    def receive(self) -> AsyncIterator[MessageEvent]:
        """As `Link.receive`."""
        return Incoming(self.connection)

    async def send(self, message: Outgoing) -> str | None:
        """As `Link.send`."""
        await trio.lowlevel.checkpoint()
        connection, command = self.connection, "NOTICE" if message.silent else "PRIVMSG"
        lines = self._lines(message, command)
        if connection.loss is not None:
            raise NotSent(f"There is no connection: {connection.loss}.")
        start, sent = connection.pace.book(len(lines)), None
        for place in range(0, len(lines), BURST):
            group = lines[place : place + BURST]
            await connection.pace.until(start, place + len(group))
            try:
                sent = await connection.say(command, message.chat_id, group)
            except PlatformError as error:
                if place == 0:
                    raise self._seen_from_here(message.chat_id, error) from error
                raise OutcomeUnknown(f"A part of the message arrived: {error}") from error
        return sent

    def _lines(self, message: Outgoing, command: str) -> list[str]:
        """Return the lines of a message as they are sent."""
        target = message.chat_id
        if not target or target[0] == ":" or any(one in target for one in " ,*?!@\r\n\0\x07"):
            raise Refused(f"{target[:60]!r} is neither a nick nor a channel.")
        room = self.connection.room_for - len(f"{command} {target} :".encode())
        lines = to_irc(message.text, message.preformatted, codes=self.connection.settings.codes)
        lines = [piece for line in lines for piece in pieces(line, room)]
        if not any(line.strip() for line in lines):
            raise Refused("The message shows nothing on IRC.")
        most = self.connection.pace.most_lines
        if len(lines) > most and not message.preformatted:
            lines = [piece for line in packed(lines, most) for piece in pieces(line, room)]
        return lines

    def _seen_from_here(self, target: str, error: PlatformError) -> PlatformError:
        """Return what a refusal means: a channel that we are not in at the moment is joined again."""
        me = self.connection.me
        is_outside = me.is_channel(target) and me.folded(target) not in self.connection.joined
        ours = {me.folded(one.partition(" ")[0]) for one in self.connection.settings.channels}
        if is_outside and me.folded(target) in ours and isinstance(error, Refused):
            return NotSent(f"We are not in the channel now: {error}")
        return error


class Incoming:
    """Iterator of events. The message of an event stays in the inbox until the next one is asked for, because
    IRC does not send it again."""

    def __init__(self, connection: IrcConnection) -> None:
        self._connection = connection
        self._is_handed_out = False

    def __aiter__(self) -> Incoming:
        return self

    async def __anext__(self) -> MessageEvent:
        await trio.lowlevel.checkpoint()
        inbox, connection = self._connection.inbox, self._connection
        if self._is_handed_out:
            self._is_handed_out = False
            inbox.waiting.popleft()
        while not inbox.waiting:
            if connection.loss is not None:
                raise LinkLost(f"The connection to IRC is lost: {connection.loss}.")
            await inbox.changed()
        if connection.loss is not None:
            raise LinkLost(f"The connection to IRC is lost: {connection.loss}.")
        heard = inbox.waiting[0]
        account = await connection.account_of(heard)
        self._is_handed_out = True
        return event_of(heard, account, connection.me, connection.settings.known)
