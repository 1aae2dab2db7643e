"""The platform in memory: for tests on a clock that jumps. No thread, no socket, no waiting but Trio's.

    platform = MemoryPlatform(traits=Traits(edits=True))
    ...                                      # a gateway that has it as an adapter
    await platform.says("hello")             # returns when the gateway has stored it
    await platform.until(lambda: platform.chat("42").texts == ["Hello!"])
    platform.fails("send", FloodWait(5))     # the next send
    platform.drop()                          # the link, now; connecting again works

A send on a link that is down was surely not sent; a link that goes down during a send leaves its outcome
unknown. All else that is asked of a link that is down, or goes down, raises `LinkLost`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import TypeVar

import trio

from ..base.messages import MessageEvent
from ..platform.contract import (
    LinkLost,
    NotSent,
    OutcomeUnknown,
    Outgoing,
    PlatformError,
    Preformatted,
    Traits,
)
from .stage import Stage, WaitingEvent, demand

_T = TypeVar("_T")


class MemoryPlatform(Stage):
    """An adapter, and all that stands behind it."""

    def __init__(self, name: str = "memory", *, account: str = "main", traits: Traits | None = None) -> None:
        super().__init__(name, account, traits or Traits())
        self.disconnect_takes = 0.0
        """So many seconds each disconnect takes, even when cancelled, as a last word to a peer may."""
        self._link: MemoryLink | None = None

    @property
    def connected(self) -> bool:
        """Whether there is a link."""
        return self._link is not None

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[MemoryLink]:
        """As `Adapter.connect`. The account has one link: the one before it is lost."""
        await self.connecting()
        self.drop()
        link = self._link = MemoryLink(self)
        self._notify()
        try:
            yield link
        finally:
            self._lose(link)
            self.note("disconnect")
            if self.disconnect_takes:
                with trio.move_on_after(self.disconnect_takes, shield=True):
                    await trio.sleep_forever()

    def drop(self, *, quietly: bool = False) -> None:
        """The link is lost now. `quietly`: what people say ends, where else it would raise."""
        if self._link:
            self._lose(self._link, quietly=quietly)

    def _lose(self, link: MemoryLink, *, quietly: bool = False) -> None:
        link.lose(quietly=quietly)
        if self._link is link:
            self._link = None
            self._notify()


class MemoryLink:
    """A link to the stage, until it is lost."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._calls: set[trio.CancelScope] = set()
        self.lost = False
        self.ended_quietly = False

    def lose(self, *, quietly: bool) -> None:
        """What is under way ends, and nothing begins any more."""
        self.ended_quietly = self.ended_quietly or (quietly and not self.lost)
        self.lost = True
        for call in self._calls:
            call.cancel()

    def receive(self) -> AsyncIterator[MessageEvent]:
        return _Incoming(self, self._stage)

    async def send(self, message: Outgoing) -> str | None:
        error = NotSent if self.lost else OutcomeUnknown
        return await self.while_up(partial(self._stage.send, message), error)

    async def edit(self, chat_id: str, message_id: str, text: str, preformatted: Preformatted = ()) -> None:
        demand(self._stage.traits, "edits")
        await self.while_up(partial(self._stage.edit, chat_id, message_id, text, preformatted))

    async def delete(self, chat_id: str, message_id: str) -> None:
        demand(self._stage.traits, "deletes")
        await self.while_up(partial(self._stage.delete, chat_id, message_id))

    async def typing(self, chat_id: str, thread_id: str | None) -> None:
        demand(self._stage.traits, "typing")
        await self.while_up(partial(self._stage.typing, chat_id, thread_id))

    async def find(self, chat_id: str, key: str) -> str | None:
        demand(self._stage.traits, "finds")
        return await self.while_up(partial(self._stage.find, chat_id, key))

    async def fetch(self, file_id: str, most: int) -> bytes:
        demand(self._stage.traits, "fetches")
        return await self.while_up(partial(self._stage.fetch, file_id, most))

    async def while_up(
        self, call: Callable[[], Awaitable[_T]], error: Callable[[str], PlatformError] = LinkLost
    ) -> _T:
        """What `call` returns; the error, at once, if the link is lost or gets lost."""
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
    """What people say. The message in hand is accepted when the next one is asked for."""

    def __init__(self, link: MemoryLink, stage: Stage) -> None:
        self._link, self._stage = link, stage
        self._in_hand: WaitingEvent | None = None

    def __aiter__(self) -> _Incoming:
        return self

    async def __anext__(self) -> MessageEvent:
        if self._in_hand and not self._link.lost:
            self._stage.accept(self._in_hand)
        self._in_hand = None
        try:
            self._in_hand = await self._link.while_up(self._stage.first_waiting)
        except LinkLost:
            if self._link.ended_quietly:
                raise StopAsyncIteration from None
            raise
        return self._in_hand.event
