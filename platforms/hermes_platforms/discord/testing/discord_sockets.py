"""The gateway of a Discord server for tests, over WebSocket."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import trio

from ...testing.web_socket import ServedWebSocket

if TYPE_CHECKING:
    from .discord_server import DiscordServer

CONTENT = 1 << 15


class GatewaySocket(ServedWebSocket):
    """One connection of an adapter to the gateway."""

    def __init__(self, server: DiscordServer, stream: trio.SocketStream) -> None:
        super().__init__(server.cutter, stream)
        self._server = server

    async def opened(self, nursery: trio.Nursery) -> None:
        """As `ServedWebSocket.opened`."""
        await self.say({"op": 10, "d": {"heartbeat_interval": self._server.heartbeat * 1000}})

    async def said(self, frame: Any, nursery: trio.Nursery) -> None:
        """As `ServedWebSocket.said`."""
        operation, data = frame["op"], frame.get("d")
        server = self._server
        if operation == 1:
            if server.answers_heartbeats:
                await self.say({"op": 11})
            if isinstance(data, int) and server.session_id is not None:
                server.confirm(data)
        elif operation in (2, 6) and (not server.lets_in or data["token"] != server.token):
            await self.close(4004)
        elif operation == 2:
            await self._identified(data, nursery)
        elif operation == 6:
            await self._resumed(data, nursery)

    async def _identified(self, data: Any, nursery: trio.Nursery) -> None:
        server = self._server
        if data["intents"] & CONTENT and not server.allows_content:
            await self.close(4014)
            return
        server.identified.append(data["intents"])
        session_id = server.begin_session()
        ready = {"v": 10, "session_id": session_id, "resume_gateway_url": server.gateway_url}
        application = {"id": server.bot_id, "flags": 0}
        server.dispatch("READY", ready | {"user": server.user, "guilds": [], "application": application})
        nursery.start_soon(self._dispatch, session_id, 0)

    async def _resumed(self, data: Any, nursery: trio.Nursery) -> None:
        server = self._server
        if data["session_id"] != server.session_id:
            await self.say({"op": 9, "d": False})
            return
        if not isinstance(data["seq"], int) or not 0 <= data["seq"] <= len(server.log):
            await self.close(4007)
            return
        server.resumed.append(data["seq"])
        server.confirm(data["seq"])
        server.dispatch_waiting()
        server.dispatch("RESUMED", {})
        nursery.start_soon(self._dispatch, data["session_id"], data["seq"])

    async def _dispatch(self, session_id: str, position: int) -> None:
        """Send the dispatches of the session, until another connection has it."""
        server = self._server
        while server.session_id == session_id:
            server.dispatch_waiting()
            if position < len(server.log):
                await self.say(server.log[position])
                position += 1
            else:  # nothing can have changed since it was looked at
                await server.changed.wait()
