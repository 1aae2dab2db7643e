"""Gateway side of the loopback platform: a platform of a test, over TCP. `wire` describes the protocol.

One task reads and one writes while the link is up. Callers pass whole lines to the writer and wait for the
answers, so a cancelled caller leaves no partial line, and an answer that arrives too late is dropped. When
the link goes down, a send whose line was passed on has an unknown outcome; a send whose line was not did not
arrive. Every other call raises `LinkLost`: it may be repeated without harm.
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
from ..platform.base_link import BaseLink
from ..platform.contract import (
    Draft,
    LinkLost,
    NotSent,
    OutcomeUnknown,
    Outgoing,
    PlatformError,
    Preformatted,
    Traits,
)
from .simulator import in_background
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
    React,
    Reader,
    Said,
    Send,
    ShowDraft,
    Typing,
    WireError,
    decode_from_platform,
    encode,
    error_of,
)


class LoopbackAdapter:
    """An adapter for a platform that a test has opened on this port."""

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
            raise LinkLost(f"No program listens on port {self._port}.") from error
        link = LoopbackLink(stream, self.name, self.traits)
        async with stream, in_background(link.run):
            try:
                await link.greet(self.account)
                yield link
            finally:
                link.lose("The link was closed.")


@dataclass(slots=True, eq=False)
class _Waiting:
    """A call that waits for its answer. If it ends with `answer` None, the link was lost."""

    answer: Answer | Failure | None = None
    over: trio.Event = field(default_factory=trio.Event)


class LoopbackLink(BaseLink):
    """A link over one connection."""

    def __init__(self, stream: trio.SocketStream, name: str, traits: Traits) -> None:
        super().__init__(traits)
        self._stream, self._name = stream, name
        self._scope = trio.CancelScope()
        self._loss = ""
        self._ids = itertools.count(1)
        self._waiting: dict[int, _Waiting] = {}
        # Without a buffer, a line that was passed on is being written.
        self._lines, self._to_write = trio.open_memory_channel[bytes](0)
        # The platform sends one event at a time.
        self._said, self.said = trio.open_memory_channel[Said](1)

    def receive(self) -> AsyncIterator[MessageEvent]:
        return _Incoming(self)

    async def send(self, message: Outgoing) -> str | None:
        return await self._call(lambda number: Send(number, message), before=NotSent, after=OutcomeUnknown)

    async def _edit(self, chat_id: str, message_id: str, text: str, preformatted: Preformatted) -> None:
        await self._call(lambda number: Edit(number, chat_id, message_id, text, preformatted))

    async def _delete(self, chat_id: str, message_id: str) -> None:
        await self._call(lambda number: Delete(number, chat_id, message_id))

    async def _typing(self, chat_id: str, thread_id: str | None) -> None:
        await self._call(lambda number: Typing(number, chat_id, thread_id))

    async def _draft(self, draft: Draft) -> None:
        await self._call(lambda number: ShowDraft(number, draft))

    async def _react(self, chat_id: str, message_id: str) -> None:
        await self._call(lambda number: React(number, chat_id, message_id))

    async def _find(self, chat_id: str, key: str, thread_id: str | None) -> str | None:
        return await self._call(lambda number: Find(number, chat_id, key))

    async def _fetch(self, file_id: str, most: int) -> bytes:
        raise AssertionError("The loopback protocol has no files.")

    async def greet(self, account: str) -> None:
        """Send our account name, and wait until the platform accepts it."""
        await self._call(lambda number: Hello(number, account))

    async def accept(self, number: int) -> None:
        """Tell the platform that an event is stored."""
        await self._pass_on(encode(Accept(number)), LinkLost)

    def lost(self) -> LinkLost:
        """Return the error for calls on the lost link."""
        return LinkLost(self._loss)

    def lose(self, why: str) -> None:
        """Take the link down: end the calls that wait, and let every later call fail."""
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
                raise WireError("An event arrived before the previous one was accepted.") from None
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
        """Call the platform and return its answer. If the link goes down, raise the error `before` if the
        line was not passed on yet, else the error `after`."""
        number = next(self._ids)
        waiting = self._waiting[number] = _Waiting()
        try:
            await self._pass_on(encode(frame(number)), before)
            await waiting.over.wait()
        finally:
            del self._waiting[number]
        if waiting.answer is None:
            raise after(self._loss)
        if isinstance(waiting.answer, Failure):
            raise error_of(waiting.answer, self._name)
        return waiting.answer.value

    async def _pass_on(self, line: bytes, error: Callable[[str], PlatformError]) -> None:
        try:
            await self._lines.send(line)
        except trio.BrokenResourceError:
            raise error(self._loss) from None


class _Incoming:
    """Iterator of the messages of people. A request for the next one accepts the previous one."""

    def __init__(self, link: LoopbackLink) -> None:
        self._link = link
        self._current: int | None = None

    def __aiter__(self) -> _Incoming:
        return self

    async def __anext__(self) -> MessageEvent:
        if self._current is not None:
            await self._link.accept(self._current)
            self._current = None
        try:
            said = await self._link.said.receive()
        except trio.EndOfChannel:
            raise self._link.lost() from None
        self._current = said.number
        return said.event


def from_config(platform: PlatformConfig) -> LoopbackAdapter:
    """Return the adapter for `platforms.loopback` of a configuration, which names the port."""
    port = platform.options.get("port")
    if not isinstance(port, int):
        raise ConfigInvalid("platforms.loopback.port", "the port is missing", "Write port: <number>.")
    return LoopbackAdapter(port, traits=msgspec.convert(platform.options.get("traits", {}), Traits))
