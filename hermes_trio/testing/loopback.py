"""The gateway's side of the loopback platform; `wire` says what goes over the wire.

One task reads and one writes, for as long as the link is up; callers hand over whole lines and wait for
their answers. So a caller that is cancelled tears no line, and the late answer finds nobody and is
dropped. When the link goes down, a send whose line was handed over has an unknown outcome; one whose line
was not surely did not arrive. All else raises `LinkLost`: it may be asked again without harm.
"""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import msgspec
import trio

from ..base.errors import ConfigInvalid
from ..base.messages import MessageEvent
from ..config.schema import PlatformConfig
from ..platform.contract import (
    LinkLost,
    NotSent,
    OutcomeUnknown,
    Outgoing,
    PlatformError,
    Preformatted,
    Traits,
)
from .stage import demand
from .wire import (
    Accept,
    Answer,
    CallFrame,
    Delete,
    Edit,
    Failure,
    Find,
    FromPlatform,
    Hello,
    Reader,
    Said,
    Send,
    Typing,
    WireError,
    background,
    decode_from_platform,
    encode,
    error_of,
)


class LoopbackAdapter:
    """An adapter for the platform that a test has opened on this port."""

    def __init__(
        self,
        port: int,
        *,
        name: str = "loopback",
        account: str = "main",
        traits: Traits | None = None,
    ) -> None:
        self.name, self.account, self.traits = name, account, traits or Traits()
        self._port = port

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[LoopbackLink]:
        """As `Adapter.connect`."""
        try:
            stream = await trio.open_tcp_stream("127.0.0.1", self._port)
        except OSError as error:
            raise LinkLost(f"Nobody listens on port {self._port}.") from error
        link = LoopbackLink(stream, self.name, self.traits)
        async with stream, background(link.run):
            try:
                await link.greet(self.account)
                yield link
            finally:
                link.lose("The link was closed.")


@dataclass(slots=True, eq=False)
class _Waiting:
    """A call that has no answer yet; None as its answer is the link's loss."""

    answer: Answer | Failure | None = None
    over: trio.Event = field(default_factory=trio.Event)


class LoopbackLink:
    """A link over one connection."""

    def __init__(self, stream: trio.SocketStream, name: str, traits: Traits) -> None:
        self._stream, self._name, self._traits = stream, name, traits
        self._scope = trio.CancelScope()
        self._loss = ""
        self._ids = itertools.count(1)
        self._waiting: dict[int, _Waiting] = {}
        # No buffer: a line that was handed over is being written.
        self._lines, self._to_write = trio.open_memory_channel[bytes](0)
        # The platform says one thing at a time.
        self._said, self.said = trio.open_memory_channel[Said](1)

    def receive(self) -> AsyncIterator[MessageEvent]:
        return _Incoming(self)

    async def send(self, message: Outgoing) -> str | None:
        return await self._call(lambda number: Send(number, message), before=NotSent, after=OutcomeUnknown)

    async def edit(self, chat_id: str, message_id: str, text: str, preformatted: Preformatted = ()) -> None:
        demand(self._traits, "edits")
        await self._call(lambda number: Edit(number, chat_id, message_id, text, preformatted))

    async def delete(self, chat_id: str, message_id: str) -> None:
        demand(self._traits, "deletes")
        await self._call(lambda number: Delete(number, chat_id, message_id))

    async def typing(self, chat_id: str, thread_id: str | None) -> None:
        demand(self._traits, "typing")
        await self._call(lambda number: Typing(number, chat_id, thread_id))

    async def find(self, chat_id: str, key: str) -> str | None:
        demand(self._traits, "finds")
        return await self._call(lambda number: Find(number, chat_id, key))

    async def fetch(self, file_id: str, most: int) -> bytes:
        raise AssertionError("No files go over this wire.")

    async def greet(self, account: str) -> None:
        """Say who we are; returns when the platform takes it."""
        await self._call(lambda number: Hello(number, account))

    async def accept(self, number: int) -> None:
        """Say that this message is stored."""
        await self._hand_over(encode(Accept(number)), LinkLost)

    def lost(self) -> LinkLost:
        return LinkLost(self._loss)

    def lose(self, why: str) -> None:
        """The link is down: whoever waits is told, and nothing begins any more."""
        self._loss = self._loss or why
        self._scope.cancel(reason=why)
        self._to_write.close()
        self._said.close()
        for waiting in self._waiting.values():
            waiting.over.set()

    async def run(self) -> None:
        """Read and write until the link is down."""
        with self._scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._read)
                nursery.start_soon(self._write)

    async def _read(self) -> None:
        reader = Reader(self._stream.receive_some, decode_from_platform)
        try:
            while frame := await reader.read():
                self._take(frame)
            self.lose("The platform closed the connection.")
        except (WireError, trio.BrokenResourceError) as error:
            self.lose(f"The connection broke: {error}")

    async def _write(self) -> None:
        try:
            async for line in self._to_write:
                await self._stream.send_all(line)
        except trio.BrokenResourceError as error:
            self.lose(f"The connection broke: {error}")

    def _take(self, frame: FromPlatform) -> None:
        if isinstance(frame, Said):
            try:
                self._said.send_nowait(frame)
            except trio.WouldBlock:
                raise WireError("A message came before the one before it was accepted.") from None
        elif waiting := self._waiting.get(frame.id):
            waiting.answer = frame
            waiting.over.set()

    async def _call(
        self,
        frame: Callable[[int], Hello | CallFrame],
        *,
        before: Callable[[str], PlatformError] = LinkLost,
        after: Callable[[str], PlatformError] = LinkLost,
    ) -> str | None:
        """What the platform answers; one of these errors if the link goes down before or after the line
        was handed over."""
        number = next(self._ids)
        waiting = self._waiting[number] = _Waiting()
        try:
            await self._hand_over(encode(frame(number)), before)
            await waiting.over.wait()
        finally:
            del self._waiting[number]
        if waiting.answer is None:
            raise after(self._loss)
        if isinstance(waiting.answer, Failure):
            raise error_of(waiting.answer, self._name)
        return waiting.answer.value

    async def _hand_over(self, line: bytes, error: Callable[[str], PlatformError]) -> None:
        try:
            await self._lines.send(line)
        except trio.BrokenResourceError:
            raise error(self._loss) from None


class _Incoming:
    """What people say. The message in hand is accepted when the next one is asked for."""

    def __init__(self, link: LoopbackLink) -> None:
        self._link = link
        self._in_hand: int | None = None

    def __aiter__(self) -> _Incoming:
        return self

    async def __anext__(self) -> MessageEvent:
        if self._in_hand is not None:
            await self._link.accept(self._in_hand)
            self._in_hand = None
        try:
            said = await self._link.said.receive()
        except trio.EndOfChannel:
            raise self._link.lost() from None
        self._in_hand = said.number
        return said.event


def from_config(platform: PlatformConfig) -> LoopbackAdapter:
    """The adapter for `platforms.loopback` of a configuration, which names the port."""
    port = platform.options.get("port")
    if not isinstance(port, int):
        raise ConfigInvalid("platforms.loopback.port", "a test has to name its port", "Write port: <number>.")
    return LoopbackAdapter(port, traits=msgspec.convert(platform.options.get("traits", {}), Traits))
