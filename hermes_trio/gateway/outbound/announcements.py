"""Announcements of the gateway about itself: it shuts down, it is back, it gave up a session.

A chat with a running turn hears of a shutdown at once or not at all: that is a notice, stored nowhere. An
announcement of a later life is owed like an answer, under a key of its own, so that each incident is
announced once, however often the gateway restarts.

This module may touch the lanes, the outbox and the restart markers of the home.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Protocol

from ...base.errors import HomeUnusable
from ...base.messages import MessageEvent, SessionSource
from ...host.home.markers import (
    RESTART_NOTIFY,
    RESTART_PENDING,
    RestartNotify,
    consume,
    read_restart_notify,
    read_restart_pending,
    write_restart_notify,
)
from ...log import Log
from ...state.db.engine import Db
from ...state.tables import outbox
from ...state.tables.inbox import Received
from ...state.tables.session_entry import SessionEntry
from ...state.tables.turns import TurnRow
from ..ending.endings_table import NOBODY, Ending
from ..ending.shutdown import Shutdown
from ..home.open_home import Home
from ..links.link import Connection
from . import texts
from .chats import Address, Chats, home_channels_of
from .rows import Body, Chat, Place, owed, place_of

log = Log(__name__)


class RunningTurn(Protocol):
    """A running turn, as far as an announcement looks at it."""

    @property
    def source(self) -> SessionSource | None: ...
    @property
    def rows(self) -> Iterable[Received]: ...
    @property
    def has_ended(self) -> bool: ...


def notify_active_sessions_of_shutdown(
    home: Home, chats: Chats, shutdown: Shutdown, running: Iterable[RunningTurn], ending: Ending
) -> None:
    """Announce the ending in the chats with a running turn, and in the home channels. Waits for no chat."""
    text, told = shutdown.consequences(ending).told, set[Place]()
    if text == NOBODY:
        return
    for turn in running:
        if turn.source is not None and not turn.has_ended and _may_notify(home, turn.source.platform):
            place = place_of(turn.source)
            if place not in told:
                told.add(place)
                anchor = _anchor(place, ending.requester, turn)
                chats.notice(turn.source, text, reply_to=anchor)
    if ending.requester is None and not shutdown.control.quiet:
        for chat, thread_id in _connected_home_channels(home, chats):
            if (chat, thread_id) not in told:
                chats.lane(chat).notice(text, thread_id=thread_id)


def remember_requester(home: Home, event: MessageEvent) -> None:
    """Write the marker by which the next life tells the chat that requested the restart."""
    source = event.source
    notify = RestartNotify(
        platform=source.platform,
        account=source.account,
        chat_id=source.chat_id,
        chat_type=source.chat_type,
        thread_id=source.thread_id,
        message_id=event.message_id,
        requested_at=home.world.now(),
    )
    try:
        write_restart_notify(home.path, notify, home.world)
    except HomeUnusable as error:  # a full disk does not prevent the restart
        log.error("restart requester not stored", error=str(error))


async def announce_return(home: Home, chats: Chats, connection: Connection) -> None:
    """Announce on a platform that just connected that the gateway is back, and what happened to its
    database."""
    asked = read_restart_notify(home.path, home.world).marker
    if asked is not None and (asked.platform, asked.account) == connection.address:
        place = Chat(*connection.address, asked.chat_id), asked.thread_id
        incident = f"restarted:{asked.requested_at}:{asked.chat_id}"
        await _owe(home, chats, incident, place, texts.restarted(), asked.message_id)
        consume(home.path, RESTART_NOTIFY)
    channel = chats.home_channels.of(connection)
    damaged = home.database.damaged_copy
    if damaged is not None and channel is not None:
        place = Chat(*connection.address, channel.chat_id), channel.thread_id
        incident = f"{damaged.name}:{':'.join(connection.address)}:{channel.chat_id}"
        await _owe(home, chats, incident, place, texts.database_damaged(damaged.name))
    pending = read_restart_pending(home.path, home.world).marker
    if pending is None:
        return
    if channel is not None and _may_notify(home, connection.adapter.name):
        incident = f"back:{pending.requested_at}:{':'.join(connection.address)}:{channel.chat_id}"
        place = Chat(*connection.address, channel.chat_id), channel.thread_id
        await _owe(home, chats, incident, place, texts.gateway_back())
    others = (other for other in chats.connections.values() if chats.home_channels.of(other) is not None)
    if all(other.link is not None for other in others):  # a platform that connects later is told then
        consume(home.path, RESTART_PENDING)


async def owe_return_after_crash(home: Home, connections: Mapping[Address, Connection]) -> None:
    """Owe the home channels the word that the gateway was down without its will; once an hour, however often
    it crashes."""
    channels = await home_channels_of(home, connections)
    for connection in connections.values():
        channel = channels.of(connection)
        if channel is not None and _may_notify(home, connection.adapter.name):
            chat, hour = Chat(*connection.address, channel.chat_id), int(home.world.time() // 3600)
            key, body = f"crashed:{hour}:{':'.join(chat)}", Body(texts.back_after_crash())
            row = owed(chat, key, body, thread_id=channel.thread_id)
            await home.database.write(outbox.owe, row, home.world.time())


def owe_stuck(db: Db, stuck: Iterable[SessionEntry], at: float) -> None:
    """Owe each suspended session its announcement, in the transaction that suspends it."""
    for entry in stuck:
        _owe_person(db, entry, f"stuck:{entry.session_id}", texts.session_suspended(), at)


def owe_left_alone(db: Db, entry: SessionEntry, cut: TurnRow, at: float) -> None:
    """Owe the announcement that a cut turn is not resumed, in the transaction that closes its messages."""
    _owe_person(db, entry, f"left:{cut.turn_id}", texts.not_resumed(), at)


def _owe_person(db: Db, entry: SessionEntry, key: str, text: str, at: float) -> None:
    if entry.origin is not None:
        chat, thread_id = place_of(entry.origin)
        outbox.owe(db, owed(chat, key, Body(text), thread_id=thread_id), at)


async def _owe(
    home: Home, chats: Chats, incident: str, place: Place, text: str, reply_to: str | None = None
) -> None:
    row = owed(place[0], incident, Body(text), thread_id=place[1], reply_to=reply_to)
    await home.database.write(outbox.owe, row, home.world.time())
    chats.lane(place[0]).deliver()


def _connected_home_channels(home: Home, chats: Chats) -> Iterator[Place]:
    """Yield the home channels of the connected platforms that are told of endings."""
    for (platform, account), connection in chats.connections.items():
        channel = chats.home_channels.of(connection)
        if channel is not None and connection.link is not None and _may_notify(home, platform):
            yield Chat(platform, account, channel.chat_id), channel.thread_id


def _may_notify(home: Home, platform: str) -> bool:
    config = home.config.platforms.get(platform)
    return config is None or config.gateway_restart_notification


def _anchor(place: Place, requester: MessageEvent | None, turn: RunningTurn) -> str | None:
    """Return the message to which a notice replies: the restart command if it was given in this place, else
    the last message that the turn answers."""
    if requester is not None and place_of(requester.source) == place:
        return requester.message_id
    rows = list(turn.rows)
    return rows[-1].event.message_id if rows else None
