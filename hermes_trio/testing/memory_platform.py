"""Platform in memory, for tests on a clock that jumps: no thread, no socket, and only Trio's own waits.

    platform = MemoryPlatform(traits=Traits(edits=True))
    ...                                      # a gateway that has it as an adapter
    await platform.says("hello")             # returns once the gateway has stored it
    await platform.until(lambda: platform.chat("42").texts == ["Hello!"])
    platform.fails("send", FloodWait(5))     # the next send
    platform.drop()                          # the link, now; connecting again works

A send on a link that is down raises `NotSent`; a link that goes down during a send makes its outcome unknown.
Every other call on a link that is down, or goes down, raises `LinkLost`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import TypeVar

import trio

from ..base.messages import MessageEvent
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
from .stage import Stage, WaitingEvent

_T = TypeVar("_T")


class MemoryPlatform(Stage):
    """An adapter and its whole platform."""

    def __init__(self, name: str = "memory", *, account: str = "main", traits: Traits | None = None) -> None:
        super().__init__(name, account, traits or Traits())
        self.disconnect_takes = 0.0
        """Seconds that each disconnect takes, even when cancelled, like a last message to a peer."""
        self._link: MemoryLink | None = None

    @property
    def connected(self) -> bool:
        """Return True while there is a link."""
        return self._link is not None

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[MemoryLink]:
        """As `Adapter.connect`. The account has one link: a new one ends the previous one."""
        await self.connecting()
        self.drop()
        link = self._link = MemoryLink(self)
        self.changed.set()
        try:
            yield link
        finally:
            self._lose(link)
            self.note("disconnect")
            if self.disconnect_takes:
                with trio.move_on_after(self.disconnect_takes, shield=True):
                    await trio.sleep_forever()

    def drop(self, *, quietly: bool = False) -> None:
        """Lose the link now. With `quietly` its iterator of events ends; without, it raises `LinkLost`."""
        if self._link:
            self._lose(self._link, quietly=quietly)

    def _lose(self, link: MemoryLink, *, quietly: bool = False) -> None:
        link.lose(quietly=quietly)
        if self._link is link:
            self._link = None
            self.changed.set()


class MemoryLink(BaseLink):
    """A link to the stage, until it is lost."""

    def __init__(self, stage: Stage) -> None:
        super().__init__(stage.traits)
        self._stage = stage
        self._calls: set[trio.CancelScope] = set()
        self.lost = False
        self.ended_quietly = False

    def lose(self, *, quietly: bool) -> None:
        """End the calls in progress, and let every later call fail."""
        self.ended_quietly = self.ended_quietly or (quietly and not self.lost)
        self.lost = True
        for call in self._calls:
            call.cancel()

    def receive(self) -> AsyncIterator[MessageEvent]:
        return _Incoming(self, self._stage)

    async def send(self, message: Outgoing) -> str | None:
        error = NotSent if self.lost else OutcomeUnknown
        return await self.while_up(partial(self._stage.send, message), error)

    async def _edit(self, chat_id: str, message_id: str, text: str, preformatted: Preformatted) -> None:
        await self.while_up(partial(self._stage.edit, chat_id, message_id, text, preformatted))

    async def _delete(self, chat_id: str, message_id: str) -> None:
        await self.while_up(partial(self._stage.delete, chat_id, message_id))

    async def _typing(self, chat_id: str, thread_id: str | None) -> None:
        await self.while_up(partial(self._stage.typing, chat_id, thread_id))

    async def _draft(self, draft: Draft) -> None:
        await self.while_up(partial(self._stage.draft, draft))

    async def _react(self, chat_id: str, message_id: str) -> None:
        await self.while_up(partial(self._stage.react, chat_id, message_id))

    async def _find(self, chat_id: str, key: str, thread_id: str | None) -> str | None:
        return await self.while_up(partial(self._stage.find, chat_id, key))

    async def _fetch(self, file_id: str, most: int) -> bytes:
        return await self.while_up(partial(self._stage.fetch, file_id, most))

    async def while_up(
        self, call: Callable[[], Awaitable[_T]], error: Callable[[str], PlatformError] = LinkLost
    ) -> _T:
        """Return the result of `call`. Raises the error, at once, if the link is lost or gets lost."""
        with trio.CancelScope() as scope:
            if not self.lost:
                self._calls.add(scope)
                try:
                    return await call()
                finally:
                    self._calls.discard(scope)
        await trio.lowlevel.checkpoint()
        raise error("The link is down.")


class _Incoming:
    """Iterator of the messages of people. A request for the next one accepts the previous one."""

    def __init__(self, link: MemoryLink, stage: Stage) -> None:
        self._link, self._stage = link, stage
        self._current: WaitingEvent | None = None

    def __aiter__(self) -> _Incoming:
        return self

    async def __anext__(self) -> MessageEvent:
        if self._current and not self._link.lost:
            self._stage.accept(self._current)
        self._current = None
        try:
            self._current = await self._link.while_up(self._stage.first_waiting)
        except LinkLost:
            if self._link.ended_quietly:
                raise StopAsyncIteration from None
            raise
        return self._current.event
