"""One WebSocket connection of a simulator, from the side of the server. Frames are JSON."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from typing import Any

import trio
from websockets.frames import Frame, Opcode
from websockets.http11 import Request
from websockets.protocol import State
from websockets.server import ServerProtocol

from hermes_trio.testing import ConnectionCutter

from .http_requests import HttpRequest, RequestReader
from .http_server import HungUp


class ServedWebSocket(ABC):
    """One connection of an adapter."""

    def __init__(self, cutter: ConnectionCutter, stream: trio.SocketStream) -> None:
        self._cutter, self._stream = cutter, stream
        self._protocol = ServerProtocol(max_size=1 << 20)
        self._writing = trio.Lock()
        self._text = b""
        self._serving = trio.CancelScope()

    @abstractmethod
    async def opened(self, nursery: trio.Nursery) -> None:
        """Begin the conversation. Tasks in the nursery end with the connection."""

    @abstractmethod
    async def said(self, frame: Any, nursery: trio.Nursery) -> None:
        """Handle a frame of the adapter."""

    async def serve(self, request: HttpRequest, reader: RequestReader) -> None:
        """Serve the connection until it ends."""
        with self._serving:
            await self._serve(request, reader)

    async def close(self, code: int) -> None:
        """Close the connection with a code."""
        if self._protocol.state is State.OPEN:
            self._protocol.send_close(code)
            await self._flush()
        self._serving.cancel(reason="closed by the server")

    async def say(self, frame: object) -> None:
        """Send a frame, unless the connection is closing."""
        if self._protocol.state is State.OPEN:
            self._protocol.send_text(json.dumps(frame).encode())
            await self._flush()

    async def _serve(self, request: HttpRequest, reader: RequestReader) -> None:
        head = "".join(f"{name}: {value}\r\n" for name, value in request.headers.items())
        self._protocol.receive_data(f"GET {request.target} HTTP/1.1\r\n{head}\r\n".encode() + reader.rest())
        [asked, *_] = self._protocol.events_received()
        if not isinstance(asked, Request):
            raise HungUp
        self._protocol.send_response(self._protocol.accept(asked))
        await self._flush()
        async with trio.open_nursery() as nursery:
            await self.opened(nursery)
            while True:
                for event in self._protocol.events_received():
                    if isinstance(event, Frame):
                        await self._frame(event, nursery)
                await self._flush()
                data = await self._cutter.receive_some(self._stream, 1 << 16)
                if not data:
                    raise HungUp
                self._protocol.receive_data(data)

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
        await self.said(said, nursery)

    async def _flush(self) -> None:
        async with self._writing:
            for data in self._protocol.data_to_send():
                if data:
                    await self._cutter.send_all(self._stream, data)
