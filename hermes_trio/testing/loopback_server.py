"""The loopback platform itself, for tests whose gateway is a process of its own: people, chats, and a
port on 127.0.0.1 that speaks the language of `wire`.

    async with open_loopback(traits=Traits(takes_keys=True)) as platform:
        ...                                           # start a gateway with a LoopbackAdapter(platform.port)
        await platform.says("hello")
        await platform.until(lambda: platform.chat("42").last == "Hello!")
        platform.cuts_after(sent=10)                  # in the middle of the next answer

A second connection ends the first, as an account has one link. The clock is the real one.
"""

from __future__ import annotations

import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import trio

from ..platform.contract import CredentialsRefused, PlatformError, Traits
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
    Reader,
    Said,
    Scissors,
    Send,
    Typing,
    WireError,
    background,
    decode_from_gateway,
    encode,
    failure,
)


@asynccontextmanager
async def open_loopback(
    name: str = "loopback", *, account: str = "main", traits: Traits | None = None
) -> AsyncIterator[LoopbackServer]:
    """The platform, while inside."""
    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    server = LoopbackServer(name, account, traits or Traits(), listeners[0].socket.getsockname()[1])
    async with background(partial(trio.serve_listeners, server.serve, listeners)):
        yield server


class LoopbackServer(Stage):
    """A platform behind a port."""

    def __init__(self, name: str, account: str, traits: Traits, port: int) -> None:
        super().__init__(name, account, traits)
        self.port = port
        self.refused: list[str] = []
        """Why connections were ended that did not keep to the wire."""
        self._scissors = Scissors()
        self._lets_in = True
        self._connection: _Connection | None = None

    @property
    def connected(self) -> bool:
        """Whether a gateway is connected."""
        return self._connection is not None

    def drop(self) -> None:
        """The connection is closed now. The gateway may connect again."""
        if self._connection:
            self._connection.scope.cancel(reason="dropped by the test")

    def refuses(self) -> None:
        """From now on it takes no gateway's credentials."""
        self._lets_in = False
        self.drop()

    def lets_in(self, account: str) -> bool:
        """Whether it takes these credentials."""
        return self._lets_in and account == self.account

    def cuts_after(self, *, sent: float = math.inf, received: float = math.inf) -> None:
        """The connection is closed when so many more bytes were sent to the gateway, or received from
        it: this one or, if that takes longer, a later one."""
        self._scissors.sent, self._scissors.received = sent, received

    async def serve(self, stream: trio.SocketStream) -> None:
        """One connection, from its first byte to its last."""
        connection = _Connection(self, stream, self._scissors)
        try:
            with connection.scope:
                async with stream:
                    await connection.converse()
        except* WireError as errors:
            self.refused += [str(error) for error in errors.exceptions]
            self._notify()
        except* trio.BrokenResourceError:
            pass
        finally:
            if self._connection is connection:
                self._connection = None
                self.note("disconnect")

    def welcome(self, connection: _Connection) -> None:
        """This is the connection of the gateway now, and no other is."""
        self.drop()
        self._connection = connection
        self._notify()


class _Connection:
    """One connection of a gateway. It is read at all times, so that its end is seen at once; each call
    is a task of its own, so that one which hangs keeps no other waiting."""

    def __init__(self, server: LoopbackServer, stream: trio.SocketStream, scissors: Scissors) -> None:
        self.scope = trio.CancelScope()
        self._server, self._stream, self._scissors = server, stream, scissors
        self._writing = trio.Lock()
        self._handed_out: WaitingEvent | None = None
        self._welcomed = False

    async def converse(self) -> None:
        """Talk to the gateway until the connection ends."""
        reader = Reader(partial(self._scissors.receive_some, self._stream), decode_from_gateway)
        async with trio.open_nursery() as nursery:
            hello = await reader.read()
            if isinstance(hello, Hello):
                nursery.start_soon(self._welcome, hello)
            elif hello:
                raise WireError("It did not begin with a hello.")
            while frame := await reader.read():
                if isinstance(frame, Accept):
                    self._accept(frame)
                elif isinstance(frame, Hello) or not self._welcomed:
                    raise WireError("It did not wait for its hello to be answered.")
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
            self._handed_out = delivery = await self._server.first_waiting()
            await self._write(Said(delivery.number, delivery.event))
            await delivery.accepted.wait()

    def _accept(self, frame: Accept) -> None:
        if self._handed_out is None or self._handed_out.number != frame.number:
            raise WireError(f"It accepted {frame.number}, which it was not given.")
        self._server.accept(self._handed_out)

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
            case Typing():
                await self._server.typing(frame.chat_id, frame.thread_id)
        return None

    async def _write(self, frame: FromPlatform) -> None:
        async with self._writing:
            await self._scissors.send_all(self._stream, encode(frame))
