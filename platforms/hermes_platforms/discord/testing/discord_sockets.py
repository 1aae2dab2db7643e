"""The gateway of a Discord server for tests, over WebSocket."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import trio
from websockets.frames import Frame, Opcode
from websockets.http11 import Request
from websockets.protocol import State
from websockets.server import ServerProtocol

from ...testing import HttpRequest, HungUp, RequestReader

if TYPE_CHECKING:
    from .discord_server import DiscordServer

CONTENT = 1 << 15


class GatewaySocket:
    """One connection of an adapter to the gateway."""

    def __init__(self, server: DiscordServer, stream: trio.SocketStream) -> None:
        self._server, self._stream = server, stream
        self._protocol = ServerProtocol(max_size=1 << 20)
        self._writing = trio.Lock()
        self._text = b""
        self._serving = trio.CancelScope()

    async def serve(self, request: HttpRequest, reader: RequestReader) -> None:
        """Serve the connection until it ends."""
        with self._serving:
            await self._serve(request, reader)

    async def _serve(self, request: HttpRequest, reader: RequestReader) -> None:
        head = "".join(f"{name}: {value}\r\n" for name, value in request.headers.items())
        self._protocol.receive_data(f"GET {request.target} HTTP/1.1\r\n{head}\r\n".encode() + reader.rest())
        [asked, *_] = self._protocol.events_received()
        if not isinstance(asked, Request):
            raise HungUp
        self._protocol.send_response(self._protocol.accept(asked))
        await self._flush()
        await self._say({"op": 10, "d": {"heartbeat_interval": self._server.heartbeat * 1000}})
        async with trio.open_nursery() as nursery:
            while True:
                for event in self._protocol.events_received():
                    if isinstance(event, Frame):
                        await self._frame(event, nursery)
                await self._flush()
                data = await self._server.cutter.receive_some(self._stream, 1 << 16)
                if not data:
                    raise HungUp
                self._protocol.receive_data(data)

    async def close(self, code: int) -> None:
        """Close the connection with a code."""
        if self._protocol.state is State.OPEN:
            self._protocol.send_close(code)
            await self._flush()
        self._serving.cancel(reason="closed by the server")

    async def _frame(self, frame: Frame, nursery: trio.Nursery) -> None:
        if frame.opcode is Opcode.CLOSE:
            await self._flush()
            raise HungUp
        if frame.opcode not in (Opcode.TEXT, Opcode.CONT):
            return
        self._text += bytes(frame.data)
        if not frame.fin:
            return
        said, self._text = json.loads(self._text), b""
        await self._said(said["op"], said.get("d"), nursery)

    async def _said(self, operation: int, data: Any, nursery: trio.Nursery) -> None:
        server = self._server
        if operation == 1:
            if server.answers_heartbeats:
                await self._say({"op": 11})
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
            await self._say({"op": 9, "d": False})
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
                await self._say(server.log[position])
                position += 1
            else:  # nothing can have changed since it was looked at
                await server.changed.wait()

    async def _say(self, frame: object) -> None:
        if self._protocol.state is State.OPEN:
            self._protocol.send_text(json.dumps(frame).encode())
            await self._flush()

    async def _flush(self) -> None:
        async with self._writing:
            for data in self._protocol.data_to_send():
                if data:
                    await self._server.cutter.send_all(self._stream, data)
