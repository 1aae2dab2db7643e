"""The connections of Socket Mode of a Slack server for tests."""

from __future__ import annotations

from typing import Any

import trio

from ...testing.web_socket import ServedWebSocket
from .slack_state import Delivered, SlackState


class EnvelopeSocket(ServedWebSocket):
    """One connection of an adapter."""

    def __init__(self, state: SlackState, stream: trio.SocketStream) -> None:
        super().__init__(state.cutter, stream)
        self._state = state
        self._is_old = False
        self.delivered: Delivered = {}

    async def opened(self, nursery: trio.Nursery) -> None:
        """As `ServedWebSocket.opened`."""
        await self.say({"type": "hello", "num_connections": len(self._state.deliveries)})
        nursery.start_soon(self._deliver)

    async def said(self, frame: Any, nursery: trio.Nursery) -> None:
        """As `ServedWebSocket.said`."""
        state, envelope_id = self._state, frame["envelope_id"]
        state.acknowledged.append(envelope_id)
        if (waiting := self.delivered.pop(envelope_id, None)) is not None:
            state.accept(waiting)
        state.changed.set()

    async def refresh(self, reason: str) -> None:
        """Ask for a new connection, and deliver no more on this one."""
        self._is_old = True
        await self.say({"type": "disconnect", "reason": reason})

    async def _deliver(self) -> None:
        """Deliver the events that were not acknowledged, and then those that come."""
        state = self._state
        here: set[int] = set()
        while not self._is_old:
            seen = here | state.delivered_elsewhere(self.delivered)
            waiting = next((one for one in state.waiting if one.number not in seen), None)
            if waiting is None:  # nothing can have changed since it was looked at
                await state.changed.wait()
                continue
            here.add(waiting.number)
            for attempt in range(2 if state.says_it_again else 1):
                envelope = state.envelope(waiting, attempt)
                self.delivered[envelope["envelope_id"]] = waiting
                await self.say(envelope)
