"""The connections of Socket Mode of a Slack server for tests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import trio

from hermes_trio.testing import WaitingEvent

from ...testing.web_socket import ServedWebSocket

if TYPE_CHECKING:
    from .slack_server import SlackServer


class EnvelopeSocket(ServedWebSocket):
    """One connection of an adapter."""

    def __init__(self, server: SlackServer, stream: trio.SocketStream) -> None:
        super().__init__(server.cutter, stream)
        self._server = server
        self._is_old = False
        self._sent: dict[str, WaitingEvent] = {}
        """The events of the envelopes that were delivered here, by the ids of the envelopes."""

    async def opened(self, nursery: trio.Nursery) -> None:
        """As `ServedWebSocket.opened`."""
        server = self._server
        await self.say({"type": "hello", "num_connections": len(server.sockets)})
        nursery.start_soon(self._deliver)

    async def said(self, frame: Any, nursery: trio.Nursery) -> None:
        """As `ServedWebSocket.said`."""
        server, envelope_id = self._server, frame["envelope_id"]
        server.acknowledged.append(envelope_id)
        if (waiting := self._sent.pop(envelope_id, None)) is not None:
            server.accept(waiting)
        server.changed.set()

    async def refresh(self, reason: str) -> None:
        """Ask for a new connection, and deliver no more on this one."""
        self._is_old = True
        await self.say({"type": "disconnect", "reason": reason})

    async def _deliver(self) -> None:
        """Deliver the events that were not acknowledged, and then those that come."""
        server = self._server
        here: set[int] = set()
        while not self._is_old:
            seen = here | server.delivered_on(self)
            waiting = next((one for one in server.waiting if one.number not in seen), None)
            if waiting is None:  # nothing can have changed since it was looked at
                await server.changed.wait()
                continue
            here.add(waiting.number)
            for attempt in range(2 if server.says_it_again else 1):
                envelope = server.envelope(waiting, attempt)
                self._sent[envelope["envelope_id"]] = waiting
                await self.say(envelope)

    def holds(self, number: int) -> bool:
        """Return True if an event was delivered here and is not acknowledged."""
        return any(one.number == number for one in self._sent.values())
