"""What the gateway says of itself: that it goes down, that it is back, that it gave a session up.

Who is in a chat with a running turn hears of the end at once or not at all; that is said by the lane and
stored nowhere. What a later life has to say is owed like an answer, under a name of its own, so that it is
said once for each incident, however often we come and go.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import msgspec

from ...base.errors import HomeUnusable
from ...base.messages import HomeChannel, MessageEvent, SessionSource
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
from ...state.tables import meta, outbox
from ...state.tables.session_entry import SessionEntry
from ..ending.endings_table import Ending
from ..links.link import Connection
from ..turn.handle import TurnHandle
from . import texts
from .rows import Body, Chat, Place, owed, place_of

if TYPE_CHECKING:
    from ...state.tables.turns import TurnRow
    from ..parts import Gateway

HOME = "home:"

log = Log(__name__)


def notify_active_sessions_of_shutdown(gateway: Gateway, ending: Ending) -> None:
    """Tell the chats in which a turn runs what is about to happen. Waits for none of them."""
    text, told = gateway.what_follows(ending).told, set[Place]()
    for actor in gateway.sessions.running:
        source = actor.task.source if actor.task is not None else None
        if source is not None and _may_notify(gateway, source.platform):
            where = place_of(source)
            if where not in told:
                told.add(where)
                anchor = _anchor(where, ending.requester, actor.task)
                gateway.lanes.of(where[0]).notice(text, thread_id=where[1], reply_to=anchor)
    if ending.requester is None and not gateway.control.quiet:
        for chat, thread_id in _home_channels(gateway):
            if (chat, thread_id) not in told:
                gateway.lanes.of(chat).notice(text, thread_id=thread_id)


def remember_requester(gateway: Gateway, event: MessageEvent) -> None:
    """See to it that the next life tells the chat that asked for the restart."""
    source = event.source
    notify = RestartNotify(
        platform=source.platform,
        account=source.account,
        chat_id=source.chat_id,
        chat_type=source.chat_type,
        thread_id=source.thread_id,
        message_id=event.message_id,
        requested_at=gateway.world.now(),
    )
    try:
        write_restart_notify(gateway.home, notify, gateway.world)
    except HomeUnusable as error:  # a disk that takes no file is no reason not to restart
        log.error("who asked for the restart will not hear of it", error=str(error))


async def tell_of_return(gateway: Gateway, connection: Connection) -> None:
    """A platform is connected: tell those who are to know that we are back, and what became of them."""
    asked = read_restart_notify(gateway.home, gateway.world).marker
    if asked is not None and (asked.platform, asked.account) == connection.address:
        chat = Chat(*connection.address, asked.chat_id)
        incident = f"restarted:{asked.requested_at}:{asked.chat_id}"
        await _owe(gateway, incident, (chat, asked.thread_id), texts.restarted(), asked.message_id)
        consume(gateway.home, RESTART_NOTIFY)
    home = home_channel(gateway, connection)
    damaged = gateway.database.damaged_copy
    if damaged is not None and home is not None:
        where = Chat(*connection.address, home.chat_id), home.thread_id
        incident = f"{damaged.name}:{':'.join(connection.address)}:{home.chat_id}"
        await _owe(gateway, incident, where, texts.database_damaged(damaged.name))
    pending = read_restart_pending(gateway.home, gateway.world).marker
    if pending is None:
        return
    if home is not None and _may_notify(gateway, connection.adapter.name):
        incident = f"back:{pending.requested_at}:{':'.join(connection.address)}:{home.chat_id}"
        where = Chat(*connection.address, home.chat_id), home.thread_id
        await _owe(gateway, incident, where, texts.back())
    others = (other for other in gateway.connections.values() if home_channel(gateway, other) is not None)
    if all(other.link is not None for other in others):  # who connects later is told then
        consume(gateway.home, RESTART_PENDING)


def owe_stuck(db: sqlite3.Connection, stuck: Iterable[SessionEntry], at: float) -> None:
    """A step, of the transaction that suspends these sessions: their people are to be told."""
    for entry in stuck:
        _owe_its_person(db, entry, f"stuck:{entry.session_id}", texts.stuck(), at)


def owe_left_alone(db: sqlite3.Connection, entry: SessionEntry, cut: TurnRow, at: float) -> None:
    """A step, of the transaction that closes what a cut turn held: its person is to be told."""
    _owe_its_person(db, entry, f"left:{cut.turn_id}", texts.left_alone(), at)


def _owe_its_person(db: sqlite3.Connection, entry: SessionEntry, key: str, text: str, at: float) -> None:
    if entry.origin is not None:
        chat, thread_id = place_of(entry.origin)
        outbox.owe(db, owed(chat, key, Body(text), thread_id=thread_id), at)


def say_home(db: sqlite3.Connection, account: tuple[str, str], home: HomeChannel) -> None:
    """Store that somebody said so with /sethome."""
    meta.put(db, HOME + ":".join(account), msgspec.json.encode(home).decode())


def home_channels_said(db: sqlite3.Connection) -> dict[tuple[str, str], HomeChannel]:
    """Where people said that the home channels are, by platform and account."""
    found = {}
    for name, value in meta.every(db, HOME):
        platform, _, account = name.removeprefix(HOME).partition(":")
        found[platform, account] = msgspec.json.decode(value, type=HomeChannel)
    return found


def home_channel(gateway: Gateway, connection: Connection) -> HomeChannel | None:
    """The home channel of an account: where /sethome said, else, for the first account of a platform,
    what the configuration says."""
    said = gateway.home_channels.get(connection.address)
    config = gateway.config.platforms.get(connection.adapter.name)
    first = next(
        other for other in gateway.connections.values() if other.adapter.name == connection.adapter.name
    )
    return said or (config.home_channel if config and first is connection else None)


def address_of(source: SessionSource) -> tuple[str, str]:
    """The platform and the account through which a source is reached."""
    return source.platform, source.account


async def _owe(gateway: Gateway, incident: str, where: Place, text: str, reply_to: str | None = None) -> None:
    row = owed(where[0], incident, Body(text), thread_id=where[1], reply_to=reply_to)
    await gateway.database.write(outbox.owe, row, gateway.world.time())
    gateway.lanes.of(where[0]).deliver()


def _home_channels(gateway: Gateway) -> Iterator[Place]:
    """The home channels of the platforms that are connected, and may be told of endings."""
    for (platform, account), connection in gateway.connections.items():
        home = home_channel(gateway, connection)
        if home is not None and connection.link is not None and _may_notify(gateway, platform):
            yield Chat(platform, account, home.chat_id), home.thread_id


def _may_notify(gateway: Gateway, platform: str) -> bool:
    config = gateway.config.platforms.get(platform)
    return config is None or config.gateway_restart_notification


def _anchor(where: Place, requester: MessageEvent | None, task: TurnHandle | None) -> str | None:
    """Which message a notice answers: the command that asked for the restart if it stands in the same
    place, else the message that the turn answers."""
    if requester is not None and place_of(requester.source) == where:
        return requester.message_id
    return task.rows[-1].event.message_id if task is not None and task.rows else None
