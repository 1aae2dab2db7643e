"""Events of people, from the envelopes of Socket Mode. An envelope is acknowledged once the gateway has asked
for the next event: then its event is stored. Until then Slack delivers it again, on this connection or
another one, after a moment, a minute and five minutes."""

from __future__ import annotations

import trio.lowlevel

from hermes_trio.platform import MessageEvent

from .parsing import App, event_of, is_addressed, mentioned, read_envelope, thread_of
from .payload import Message
from .people import People
from .socket_mode import Envelope, SocketMode

MOST_THREADS = 1000


Threads = dict[tuple[str, str], None]
"""Threads of channels that the app takes part in, the latest at the end. There it needs no mention."""


class Incoming:
    """Iterator of events. A cancelled call loses nothing."""

    def __init__(self, socket_mode: SocketMode, app: App, people: People, threads: Threads) -> None:
        self._socket_mode, self._app, self._people, self._threads = socket_mode, app, people, threads
        self._first: Envelope | None = None
        """The envelope that is in work, or whose event was handed out."""
        self._is_out = False

    def __aiter__(self) -> Incoming:
        return self

    async def __anext__(self) -> MessageEvent:
        while True:
            await trio.lowlevel.checkpoint()
            if self._first is None:
                self._first = await self._socket_mode.next()
            elif not self._is_out and (event := await self._event(self._first)) is not None:
                self._is_out = True
                return event
            else:
                await self._first.acknowledge()
                self._first, self._is_out = None, False

    async def _event(self, envelope: Envelope) -> MessageEvent | None:
        """Return the event of an envelope; None if it is for nobody."""
        read = read_envelope(envelope.kind, envelope.payload, self._app)
        if read is None or isinstance(read, MessageEvent):
            return read
        message, team_id = read
        return await self._message(message, team_id)

    async def _message(self, message: Message, team_id: str | None) -> MessageEvent | None:
        app = self._app
        if not is_addressed(message, app, self._threads):
            return None
        people = await self._people.names([message.user or "", *mentioned(message.text)])
        if (thread := thread_of(message, app)) is not None:
            self._take_part(message.channel, thread)
        return event_of(message, app, team_id, people)

    def _take_part(self, channel: str, thread: str) -> None:
        self._threads.pop((channel, thread), None)
        self._threads[channel, thread] = None
        while len(self._threads) > MOST_THREADS:
            del self._threads[next(iter(self._threads))]
