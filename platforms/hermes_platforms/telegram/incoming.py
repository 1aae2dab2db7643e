"""What people say, out of updates.

Received is what updates are asked *behind*: the next offset confirms every update before it, so it is
named only when the gateway has asked for the next event. What was handed out and not confirmed comes again.
Whether they are asked for or brought is the business of `polling` and `webhook`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import replace

import trio.lowlevel

from hermes_trio.platform import LinkLost, MessageEvent

from .parsing import Bot, album_of, parse, update_id_of
from .polling import Updates


class Incoming:
    """What people say, update for update. By the time there is none in hand the gateway has asked behind
    all of them, and the next offset may confirm them."""

    def __init__(self, updates: Updates, bot: Bot, thank: Callable[[MessageEvent], Awaitable[None]]) -> None:
        self._updates, self._bot, self._thank = updates, bot, thank
        self._pressed: MessageEvent | None = None
        self._in_hand: deque[object] = deque()
        self._offset: int | None = None
        self._album: str | None = None
        """The newest album that is for us."""

    def __aiter__(self) -> Incoming:
        return self

    async def __anext__(self) -> MessageEvent:
        if self._pressed is not None:
            press, self._pressed = self._pressed, None
            await self._thank(press)
        while True:
            await trio.lowlevel.checkpoint()
            while not self._in_hand:
                self._in_hand.extend(await self._updates.behind(self._offset))
            if (event := self._next()) is not None:
                self._pressed = event if event.kind == "callback" else None
                return event

    def _next(self) -> MessageEvent | None:
        update = self._in_hand.popleft()
        number = update_id_of(update)
        if number is None:
            raise LinkLost("What answers there sends updates without a number.")
        self._offset = number + 1
        album = album_of(update)
        goes_on = album is not None and album == self._album
        event = parse(update, replace(self._bot, require_mention=False) if goes_on else self._bot)
        if event is not None and album is not None:
            self._album = album
        return event
