"""Events of people, from updates.

An offset confirms every update before it. So the next offset is sent only after the gateway has asked for the
next event, and updates that were delivered but not confirmed come again. `polling` and `webhook` are the two
sources of updates.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import replace

import trio.lowlevel

from hermes_trio.platform import STOPPED_DRAFT, LinkLost, MessageEvent

from .parsing import Bot, album_of, parse, update_id_of
from .polling import Updates


class Incoming:
    """Iterator of events. When no update is left, the gateway has asked for the event after the last one, so
    the next offset may confirm them all."""

    def __init__(
        self, updates: Updates, bot: Bot, acknowledge: Callable[[MessageEvent], Awaitable[None]]
    ) -> None:
        self._updates, self._bot, self._acknowledge = updates, bot, acknowledge
        self._pressed: MessageEvent | None = None
        self._read: deque[object] = deque()
        self._offset: int | None = None
        self._album: str | None = None
        """The newest album that is addressed to the bot."""

    def __aiter__(self) -> Incoming:
        return self

    async def __anext__(self) -> MessageEvent:
        if self._pressed is not None:
            press, self._pressed = self._pressed, None
            await self._acknowledge(press)
        while True:
            await trio.lowlevel.checkpoint()
            while not self._read:
                self._read.extend(await self._updates.after(self._offset))
            if (event := self._next()) is not None:
                is_press = event.kind == "callback" and not event.text.startswith(STOPPED_DRAFT)
                self._pressed = event if is_press else None
                return event

    def _next(self) -> MessageEvent | None:
        update = self._read.popleft()
        number = update_id_of(update)
        if number is None:
            raise LinkLost("The server sends updates without a number: is it a Bot API server?")
        self._offset = number + 1
        album = album_of(update)
        continues = album is not None and album == self._album
        event = parse(update, replace(self._bot, require_mention=False) if continues else self._bot)
        if event is not None and album is not None:
            self._album = album
        return event
