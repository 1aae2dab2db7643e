"""Events of people, from the dispatches of the gateway.

A dispatch counts as read once the gateway of hermes-trio has asked for the next event: then its event is
stored. Only that far does the session resume, and only that far is remembered. After a session that Discord
has forgotten, what was missed is read from the channels first.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import trio.lowlevel

from hermes_trio.platform import LinkLost, Log, Memory, MessageEvent

from .api import Denied, DiscordApi, NoAnswer, NotReached
from .gateway import Gateway
from .parsing import (
    Bot,
    event_of_interaction,
    event_of_message,
    read_interaction,
    read_message,
)
from .payload import Channel, Interaction, Message
from .place import KnownChannel, Place, later
from .session import Dispatch

PAGE = 100
MOST_MISSED = 500
"""Messages of one channel that are read after an outage: the oldest of them."""
REMEMBER_AFTER = 200
"""Dispatches for nobody until the place is remembered all the same."""
MOST_CHANNELS = 1000

log = Log(__name__)


class Incoming:
    """Iterator of events. A cancelled call loses nothing."""

    def __init__(
        self,
        gateway: Gateway,
        api: DiscordApi,
        bot: Bot,
        place: Place,
        memory: Memory,
        acknowledge: Callable[[Interaction], Awaitable[None]],
    ) -> None:
        self._gateway, self._api, self._bot = gateway, api, bot
        self._place, self._memory, self._acknowledge = place, memory, acknowledge
        self._read: deque[Dispatch] = deque()
        """Dispatches that came and are not stored. The first one is in work, or was handed out."""
        self._handed_out: Message | Interaction | None = None
        self._is_out = False
        self._channels: dict[str, Channel] = {}
        self._unremembered = 0

    def __aiter__(self) -> Incoming:
        return self

    async def __anext__(self) -> MessageEvent:
        if self._is_out:
            await self._stored(self._read[0])
        while True:
            await trio.lowlevel.checkpoint()
            if not self._read:
                self._read.append(await self._gateway.next())
            dispatch = self._read[0]
            if dispatch.kind == "READY":
                missed = await self._missed()
                self._read.popleft()
                self._read.extendleft([*reversed(missed), dispatch])
                self._unremembered = REMEMBER_AFTER
            elif (event := await self._event(dispatch)) is not None:
                self._is_out = True
                return event
            await self._go_on(dispatch)

    async def _stored(self, dispatch: Dispatch) -> None:
        """Note that the event that was handed out is stored."""
        part = self._handed_out
        if isinstance(part, Interaction):
            await self._acknowledge(part)
        if isinstance(part, Message):
            self._place.talked(self._channels[part.channel_id], part.guild_id, part.id)
        self._unremembered = REMEMBER_AFTER
        await self._go_on(dispatch)
        self._is_out, self._handed_out = False, None

    async def _go_on(self, dispatch: Dispatch) -> None:
        """Let the session resume after the first dispatch, which is stored or for nobody."""
        session, place = self._gateway.session, self._place
        if dispatch.session_id is not None and dispatch.session_id == session.id:
            session.stored = dispatch.number
        if len(self._read) > 1 and self._read[1].session_id is None:
            place.resumes(None, None, None)  # until the past is read, the next process has to read it too
        elif dispatch.session_id in (None, session.id):
            place.resumes(session.id, session.resume_url, session.stored)
        self._unremembered += 1
        if self._unremembered > REMEMBER_AFTER:
            await self._memory.keep(place.to_text())
            self._unremembered = 0
        self._read.popleft()

    async def _event(self, dispatch: Dispatch) -> MessageEvent | None:
        """Return the event of a dispatch; None if it is for nobody."""
        match dispatch.kind:
            case "MESSAGE_CREATE" | "MESSAGE_UPDATE":
                return await self._message(dispatch)
            case "INTERACTION_CREATE":
                read = read_interaction(dispatch.data, self._bot)
                if not isinstance(read, Interaction):
                    return read
                self._handed_out = read
                channel = read.channel or await self._channel(str(read.channel_id), read.guild_id)
                return event_of_interaction(read, self._bot, channel)
            case _:
                return None

    async def _message(self, dispatch: Dispatch) -> MessageEvent | None:
        edited = dispatch.kind == "MESSAGE_UPDATE"
        read = read_message(dispatch.data, self._bot)
        if isinstance(read, MessageEvent):
            return read
        if read is None or (edited and read.edited_timestamp is None):  # Discord has added a preview
            self._pass(dispatch.data)
            return None
        channel = await self._channel(read.channel_id, read.guild_id)
        event = event_of_message(read, self._bot, channel, edited=edited)
        if event is not None:
            self._handed_out = read
        return event

    def _pass(self, data: Any) -> None:
        if isinstance(data, dict) and isinstance(data.get("id"), str):
            self._place.passed(str(data.get("channel_id")), data["id"])

    async def _channel(self, channel_id: str, guild_id: str | None) -> Channel:
        """Return a channel. Direct chats have nothing that has to be asked for."""
        if channel_id not in self._channels:
            if len(self._channels) >= MOST_CHANNELS:
                self._channels.clear()
            found = Channel(channel_id) if guild_id is None else await self._asked(channel_id)
            self._channels[channel_id] = found
        return self._channels[channel_id]

    async def _asked(self, channel_id: str) -> Channel:
        try:
            answer = await self._api.call("GET", f"/channels/{channel_id}")
            return msgspec.convert(answer, Channel)
        except (NotReached, NoAnswer) as error:
            raise LinkLost(f"Discord did not answer: {error}.") from error
        except (Denied, msgspec.ValidationError) as error:
            log.info("channel not known", platform=self._bot.platform, error=str(error))
            return Channel(channel_id)

    # --- after an outage ---

    async def _missed(self) -> list[Dispatch]:
        """Return the messages that were written since the last session, in their order."""
        missed: list[Dispatch] = []
        for known in self._place.known():
            self._channels[known.channel.id] = known.channel
            messages = await self._since(known)
            missed += [
                Dispatch(0, "MESSAGE_CREATE", {"guild_id": known.guild_id, **one}, None) for one in messages
            ]
        return sorted(missed, key=lambda one: int(one.data["id"]))

    async def _since(self, known: KnownChannel) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        last = known.last
        while len(found) < MOST_MISSED:
            try:
                path = f"/channels/{known.channel.id}/messages"
                page = await self._api.call("GET", path, {"after": last, "limit": str(PAGE)})
            except (NotReached, NoAnswer) as error:
                raise LinkLost(f"Discord did not answer: {error}.") from error
            except Denied as no:
                if no.status == 429:
                    raise LinkLost(f"Discord lets us read no more for now: {no}.") from no
                log.info("channel not readable", platform=self._bot.platform, error=str(no))
                return found
            read = [one for one in page if _has_number(one)] if isinstance(page, list) else []
            found += sorted(read, key=lambda one: int(one["id"]))
            for one in read:
                last = later(last, one["id"])
            if len(read) < PAGE:
                return found
        log.warning("messages of an outage left out", platform=self._bot.platform, limit=MOST_MISSED)
        return found


def _has_number(message: object) -> bool:
    number = message.get("id") if isinstance(message, dict) else None
    return isinstance(number, str) and number.isdecimal()
