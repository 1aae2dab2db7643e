"""The gateway of a Discord server for tests, over WebSocket."""

from __future__ import annotations

from typing import Any

import trio

from ...testing.web_socket import ServedWebSocket
from .discord_state import DiscordState

CONTENT = 1 << 15


class GatewaySocket(ServedWebSocket):
    """One connection of an adapter to the gateway."""

    def __init__(self, state: DiscordState, stream: trio.SocketStream) -> None:
        super().__init__(state.cutter, stream)
        self._state = state

    async def opened(self, nursery: trio.Nursery) -> None:
        """As `ServedWebSocket.opened`."""
        await self.say({"op": 10, "d": {"heartbeat_interval": self._state.heartbeat * 1000}})

    async def said(self, frame: Any, nursery: trio.Nursery) -> None:
        """As `ServedWebSocket.said`."""
        operation, data = frame["op"], frame.get("d")
        state = self._state
        if operation == 1:
            if state.answers_heartbeats:
                await self.say({"op": 11})
            if isinstance(data, int) and state.session_id is not None:
                state.confirm(data)
        elif operation in (2, 6) and (not state.lets_in or data["token"] != state.token):
            await self.close(4004)
        elif operation == 2:
            await self._identified(data, nursery)
        elif operation == 6:
            await self._resumed(data, nursery)

    async def _identified(self, data: Any, nursery: trio.Nursery) -> None:
        state = self._state
        if data["intents"] & CONTENT and not state.allows_content:
            await self.close(4014)
            return
        state.identified.append(data["intents"])
        session_id = state.begin_session()
        ready = {"v": 10, "session_id": session_id, "resume_gateway_url": state.gateway_url}
        application = {"id": state.bot_id, "flags": 0}
        state.dispatch("READY", ready | {"user": state.user, "guilds": [], "application": application})
        nursery.start_soon(self._dispatch, session_id, 0)

    async def _resumed(self, data: Any, nursery: trio.Nursery) -> None:
        state = self._state
        if data["session_id"] != state.session_id:
            await self.say({"op": 9, "d": False})
            return
        if not isinstance(data["seq"], int) or not 0 <= data["seq"] <= len(state.log):
            await self.close(4007)
            return
        state.resumed.append(data["seq"])
        state.confirm(data["seq"])
        state.dispatch_waiting()
        state.dispatch("RESUMED", {})
        nursery.start_soon(self._dispatch, data["session_id"], data["seq"])

    async def _dispatch(self, session_id: str, position: int) -> None:
        """Send the dispatches of the session, until another connection has it."""
        state = self._state
        while state.session_id == session_id:
            state.dispatch_waiting()
            if position < len(state.log):
                await self.say(state.log[position])
                position += 1
            else:  # nothing can have changed since it was looked at
                await state.changed.wait()
