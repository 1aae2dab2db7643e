"""Test side of the loopback platform, for tests whose gateway is a process of its own: people, chats, and a
port on 127.0.0.1 that speaks the protocol of `wire`.

    async with open_loopback(traits=Traits(takes_keys_for=FOR_EVER)) as platform:
        ...                                           # start a gateway with a LoopbackAdapter(platform.port)
        await platform.says("hello")
        await platform.until(lambda: platform.chat("42").last == "Hello!")
        platform.cuts_after(sent=10)                  # in the middle of the next answer

A second connection ends the first, because an account has one link. The clock is the real one.
"""

from __future__ import annotations

import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import trio

from ..platform.contract import CredentialsRefused, PlatformError, Traits
from .simulator import ConnectionCutter, in_background
from .stage import Stage, WaitingEvent
from .wire import (
    Accept,
    Answer,
    CallFrame,
    Delete,
    Edit,
    Find,
    FromPlatform,
    Hello,
    React,
    Reader,
    Said,
    Send,
    ShowDraft,
    Typing,
    WireError,
    decode_from_gateway,
    encode,
    failure,
)


@asynccontextmanager
async def open_loopback(
    name: str = "loopback", *, account: str = "main", traits: Traits | None = None
) -> AsyncIterator[LoopbackServer]:
    """Run the platform while inside."""
    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    server = LoopbackServer(name, account, traits or Traits(), listeners[0].socket.getsockname()[1])
    async with in_background(partial(trio.serve_listeners, server.serve, listeners)):
        yield server


class LoopbackServer(Stage):
    """A platform that listens on a port."""

    def __init__(self, name: str, account: str, traits: Traits, port: int) -> None:
        super().__init__(name, account, traits)
        self.port = port
        self.refused: list[str] = []
        """Errors of connections that were closed because they broke the protocol."""
        self._cutter = ConnectionCutter()
        self._lets_in = True
        self._connection: _Connection | None = None

    @property
    def connected(self) -> bool:
        """Return True while a gateway is connected."""
        return self._connection is not None

    def drop(self) -> None:
        """Close the connection now. The gateway may connect again."""
        if self._connection:
            self._connection.scope.cancel(reason="dropped by the test")

    def refuses(self) -> None:
        """Refuse all credentials from now on."""
        self._lets_in = False
        self.drop()

    def lets_in(self, account: str) -> bool:
        """Return True if the credentials are accepted."""
        return self._lets_in and account == self.account

    def cuts_after(self, *, sent: float = math.inf, received: float = math.inf) -> None:
        """Close the connection after this many more bytes were sent to the gateway, or received from it. If
        the current connection ends before that, the count goes on with the next one."""
        self._cutter.sent, self._cutter.received = sent, received

    async def serve(self, stream: trio.SocketStream) -> None:
        """Serve one connection until it ends."""
        connection = _Connection(self, stream, self._cutter)
        try:
            with connection.scope:
                async with stream:
                    await connection.converse()
        except* WireError as errors:
            self.refused += [str(error) for error in errors.exceptions]
            self.changed.set()
        except* trio.BrokenResourceError:
            pass
        finally:
            if self._connection is connection:
                self._connection = None
                self.note("disconnect")

    def welcome(self, connection: _Connection) -> None:
        """Make this the only connection of the gateway."""
        self.drop()
        self._connection = connection
        self.changed.set()


class _Connection:
    """One connection of a gateway. It is read all the time, so its end is noticed at once. Each call is a
    task of its own, so a call that hangs delays no other."""

    def __init__(self, server: LoopbackServer, stream: trio.SocketStream, cutter: ConnectionCutter) -> None:
        self.scope = trio.CancelScope()
        self._server, self._stream, self._cutter = server, stream, cutter
        self._writing = trio.Lock()
        self._delivered: WaitingEvent | None = None
        self._welcomed = False

    async def converse(self) -> None:
        """Serve the gateway until the connection ends."""
        reader = Reader(partial(self._cutter.receive_some, self._stream), decode_from_gateway)
        async with trio.open_nursery() as nursery:
            hello = await reader.read()
            if isinstance(hello, Hello):
                nursery.start_soon(self._welcome, hello)
            elif hello:
                raise WireError("The first frame is no hello.")
            while frame := await reader.read():
                if isinstance(frame, Accept):
                    self._accept(frame)
                elif isinstance(frame, Hello) or not self._welcomed:
                    raise WireError("A frame came before the answer to the hello.")
                else:
                    nursery.start_soon(self._answer, frame)
            nursery.cancel_scope.cancel(reason="the gateway closed the connection")

    async def _welcome(self, hello: Hello) -> None:
        try:
            if not self._server.lets_in(hello.account):
                raise CredentialsRefused(self._server.name)
            await self._server.connecting()
        except PlatformError as error:
            await self._write(failure(hello.id, error))
            self.scope.cancel(reason="refused")
            return
        self._server.welcome(self)
        self._welcomed = True
        await self._write(Answer(hello.id))
        while True:
            self._delivered = delivery = await self._server.first_waiting()
            await self._write(Said(delivery.number, delivery.event))
            await delivery.accepted.wait()

    def _accept(self, frame: Accept) -> None:
        if self._delivered is None or self._delivered.number != frame.number:
            raise WireError(f"Event {frame.number} was accepted but not delivered.")
        self._server.accept(self._delivered)

    async def _answer(self, frame: CallFrame) -> None:
        answer: FromPlatform
        try:
            answer = Answer(frame.id, await self._do(frame))
        except PlatformError as error:
            answer = failure(frame.id, error)
        await self._write(answer)

    async def _do(self, frame: CallFrame) -> str | None:
        match frame:
            case Send():
                return await self._server.send(frame.message)
            case Find():
                return await self._server.find(frame.chat_id, frame.key)
            case Edit():
                await self._server.edit(frame.chat_id, frame.message_id, frame.text, frame.preformatted)
            case Delete():
                await self._server.delete(frame.chat_id, frame.message_id)
            case ShowDraft():
                await self._server.draft(frame.draft)
            case React():
                await self._server.react(frame.chat_id, frame.message_id)
            case Typing():
                await self._server.typing(frame.chat_id, frame.thread_id)
        return None

    async def _write(self, frame: FromPlatform) -> None:
        async with self._writing:
            await self._cutter.send_all(self._stream, encode(frame))
