"""The chats of one gateway: the connections to their platforms, their lanes and the home channels.

Built in the nursery of the lanes. It may touch the connections and the outbox, and knows no session and no
turn.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import trio

from ...base.messages import HomeChannel, MessageEvent, SessionSource
from ...platform.contract import Traits
from ...state.db.database import Database
from ...state.tables import meta
from ..home.open_home import Home
from ..links.link import Connection
from .gone_chats import GoneChats
from .lane import Lane
from .rows import Chat

Address = tuple[str, str]
"""A platform, and the account on it."""

_HOME = "home:"
"""Prefix of the names under which `meta` keeps home channels."""


class HomeChannels:
    """The home channels of the accounts: set by `/sethome`, else by the configuration."""

    def __init__(
        self, home: Home, connections: Mapping[Address, Connection], chosen: dict[Address, HomeChannel]
    ) -> None:
        self._home, self._connections, self._chosen = home, connections, chosen

    def of(self, connection: Connection) -> HomeChannel | None:
        """Return the home channel of an account. The configured one belongs to the first account of its
        platform."""
        chosen = self._chosen.get(connection.address)
        config = self._home.config.platforms.get(connection.adapter.name)
        first = next(
            other for other in self._connections.values() if other.adapter.name == connection.adapter.name
        )
        return chosen or (config.home_channel if config and first is connection else None)

    async def set(self, address: Address, channel: HomeChannel) -> None:
        """Store the home channel of an account, as given by `/sethome`."""
        value = msgspec.json.encode(channel).decode()
        await self._home.database.write(meta.put, _HOME + ":".join(address), value)
        self._chosen[address] = channel


class Chats:
    """The connections of one gateway, and its lanes: one task for each chat that has something to send."""

    def __init__(
        self,
        home: Home,
        connections: Mapping[Address, Connection],
        gone: GoneChats,
        home_channels: HomeChannels,
        nursery: trio.Nursery,
    ) -> None:
        self.connections, self.gone, self.home_channels = connections, gone, home_channels
        self._home, self._nursery = home, nursery
        self._lanes: dict[Chat, Lane] = {}
        self._told_of_pause: set[Chat] = set()

    # --- platforms ---

    def connection(self, chat: Chat) -> Connection:
        """Return the connection through which this chat is reached."""
        return self.connections[chat.platform, chat.account]

    def traits(self, chat: Chat) -> Traits:
        """Return the traits of the platform of this chat."""
        return self.connections[chat.platform, chat.account].adapter.traits

    # --- lanes ---

    def lane(self, chat: Chat) -> Lane:
        """Return the lane of this chat, and start it if there is none. After the end it sends nothing: links
        still receive for a moment then, and owed rows stand in the outbox."""
        lane = self._lanes.get(chat)
        if lane is None:
            home = self._home
            lane = Lane(chat, self.connection(chat), home.database, home.world, self.gone, home.owner)
            self._lanes[chat] = lane
            if not self._nursery.cancel_scope.cancel_called:
                self._nursery.start_soon(self._run, lane, name=f"lane {chat.platform}:{chat.chat_id}")
        return lane

    def held_for(self, chat: Chat) -> float:
        """Return the seconds until the flood wait of this chat is over; 0 without one. Starts no lane."""
        lane = self._lanes.get(chat)
        return lane.held_for if lane is not None else 0.0

    async def _run(self, lane: Lane) -> None:
        def leave() -> bool:
            # No checkpoint between this answer and the end of the task: nothing can be added in between.
            del self._lanes[lane.chat]
            return True

        await lane.run(leave=leave)

    async def flushed(self) -> None:
        """Wait until every lane has sent what can be sent now."""
        async with trio.open_nursery() as nursery:
            for lane in self._lanes.values():
                nursery.start_soon(lane.flushed)

    def reply(self, event: MessageEvent, text: str) -> None:
        """Send a notice to the sender of an event. It is not stored."""
        # A press of a button has an id of its own, which is not the id of a message.
        reply_to = event.reply_to if event.kind == "callback" else event.message_id
        self.notice(event.source, text, reply_to=reply_to)

    def notice(self, source: SessionSource, text: str, *, reply_to: str | None = None) -> None:
        """Send a notice to the chat of a source. It is not stored. A person who reads the transcript sees
        the events instead."""
        chat = Chat.of(source)
        if not self.traits(chat).shows_transcript:
            self.lane(chat).notice(text, thread_id=source.thread_id, reply_to=reply_to)

    def mark(self, event: MessageEvent) -> None:
        """Mark a message as taken in, where the platform can show that."""
        chat = Chat.of(event.source)
        if event.message_id is not None and self.traits(chat).reacts:
            self.lane(chat).mark(event.message_id)

    # --- while no turns begin ---

    def may_tell_of_pause(self, chat: Chat) -> bool:
        """Return True the first time it is asked for a chat since turns began to wait."""
        if chat in self._told_of_pause:
            return False
        self._told_of_pause.add(chat)
        return True

    def pause_over(self) -> None:
        """Note that turns begin again: a later pause is told again."""
        self._told_of_pause.clear()


async def home_channels_of(home: Home, connections: Mapping[Address, Connection]) -> HomeChannels:
    """Load the home channels that people have set."""
    return HomeChannels(home, connections, await _stored(home.database))


async def _stored(database: Database) -> dict[Address, HomeChannel]:
    found = {}
    for name, value in await database.read(meta.every, _HOME):
        platform, _, account = name.removeprefix(_HOME).partition(":")
        found[platform, account] = msgspec.json.decode(value, type=HomeChannel)
    return found
