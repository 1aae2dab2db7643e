"""Replies about the state of things: the session, the gateway, the usage, the person.

It reads the session, the inbox and the state of the gateway, and changes nothing.
"""

from __future__ import annotations

import trio

from ...base.messages import SessionSource
from ...state.tables import inbox
from ...state.tables.session_entry import SessionEntry
from ..ending.shutdown import Shutdown
from ..home.open_home import Home
from ..outbound import texts
from ..outbound.chats import Chats
from ..outbound.texts import duration
from ..session.running_turns import RunningTurns
from ..turn.handle import TurnHandle


async def status(home: Home, chats: Chats, shutdown: Shutdown, running: RunningTurns, key: str) -> str:
    """Return the state of a session and of the gateway."""
    entry = await home.store.get_session_entry(key)
    waiting = await home.database.read(inbox.count_pending, key)
    lines = [
        _gateway(shutdown, len(running)),
        _session(entry, home.world.time()),
        _turn(running.handle(key)),
    ]
    if waiting:
        lines.append(f"{texts.messages(waiting)} waiting")
    beside = len(running.in_background(key))
    if beside:
        lines.append(f"In the background: {texts.turns(beside)} running")
    lines += [f"{connection.adapter.name}: {connection.state}" for connection in chats.connections.values()]
    return "\n".join(lines)


def _gateway(shutdown: Shutdown, running: int) -> str:
    turns, control = f"{texts.turns(running)} running", shutdown.control
    if control.current is not None:
        return f"The gateway is going down ({control.current.cause}); {turns}"
    return f"The gateway {'begins nothing new for now' if control.held else 'is up'}; {turns}"


def _session(entry: SessionEntry | None, now: float) -> str:
    if entry is None:
        return "No session yet: your next message begins one"
    begun, used = (duration(now - at) for at in (entry.created_at, entry.updated_at))
    return f"Session {entry.session_id}, begun {begun} ago, last used {used} ago"


def _turn(handle: TurnHandle | None) -> str:
    if handle is None:
        return "Nothing is running here"
    waits = ", waiting for your answer" if handle.questions else ""
    return f"Working for {duration(trio.current_time() - handle.began)}{waits}"


def usage(entry: SessionEntry | None) -> str:
    """Return the token usage of a session, or that it is unknown."""
    if entry is None or not entry.usage.total_tokens:
        return "Nothing is known of what this session has used."
    used = entry.usage
    cost = "unknown" if used.cost_usd is None else f"${used.cost_usd:.4f}"
    return (
        f"{used.input_tokens} tokens in, {used.output_tokens} out, {used.cache_read_tokens} read from "
        f"the cache, {used.cache_write_tokens} written to it. Cost: {cost}."
    )


def whoami(source: SessionSource, key: str, *, is_admin: bool) -> str:
    """Return who a person is to the gateway."""
    name = f" ({source.user_name})" if source.user_name else ""
    role = "You are an admin." if is_admin else "You may talk to the agent."
    return (
        f"{source.platform} user {source.participant or source.chat_id}{name}, "
        f"chat {source.chat_id}. {role}\nSession key: {key}"
    )
