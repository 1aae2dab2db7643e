"""What the gateway says when somebody asks how things are: texts made of facts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio

from ...base.messages import SessionSource
from ...state.tables import inbox
from ...state.tables.session_entry import SessionEntry
from ..outbound import texts
from ..outbound.texts import duration

if TYPE_CHECKING:
    from ..parts import Gateway
    from ..turn.handle import TurnHandle


async def status(gateway: Gateway, key: str) -> str:
    """What is going on in a session, and with the gateway."""
    entry = await gateway.store.get_session_entry(key)
    waiting = await gateway.database.read(inbox.count_pending, key)
    lines = [_gateway(gateway), _session(gateway, entry), _turn(gateway.sessions.task(key))]
    if waiting:
        lines.append(f"{texts.messages(waiting)} waiting")
    beside = len(gateway.sessions.beside(key))
    if beside:
        lines.append(f"In the background: {texts.turns(beside)} running")
    lines += [f"{connection.adapter.name}: {connection.state}" for connection in gateway.connections.values()]
    return "\n".join(lines)


def _gateway(gateway: Gateway) -> str:
    turns = f"{texts.turns(len(gateway.sessions.running))} running"
    ending = gateway.control.current
    if ending is not None:
        return f"The gateway is going down ({ending.cause}); {turns}"
    return f"The gateway {'begins nothing new for now' if gateway.control.held else 'is up'}; {turns}"


def _session(gateway: Gateway, entry: SessionEntry | None) -> str:
    if entry is None:
        return "No session yet: your next message begins one"
    begun, used = (duration(gateway.world.time() - at) for at in (entry.created_at, entry.updated_at))
    return f"Session {entry.session_id}, begun {begun} ago, last used {used} ago"


def _turn(task: TurnHandle | None) -> str:
    if task is None:
        return "Nothing is running here"
    waits = ", waiting for your answer" if task.asked else ""
    return f"Working for {duration(trio.current_time() - task.began)}{waits}"


def usage(entry: SessionEntry | None) -> str:
    """What a session has used. What is unknown is said to be unknown."""
    if entry is None or not entry.usage.total_tokens:
        return "Nothing is known of what this session has used."
    used = entry.usage
    cost = "unknown" if used.cost_usd is None else f"${used.cost_usd:.4f}"
    return (
        f"{used.input_tokens} tokens in, {used.output_tokens} out, {used.cache_read_tokens} read from "
        f"the cache, {used.cache_write_tokens} written to it. Cost: {cost}."
    )


def whoami(source: SessionSource, key: str, *, is_admin: bool) -> str:
    """Who somebody is to the gateway."""
    name = f" ({source.user_name})" if source.user_name else ""
    role = "You are an admin." if is_admin else "You may talk to the agent."
    return (
        f"{source.platform} user {source.participant or source.chat_id}{name}, "
        f"chat {source.chat_id}. {role}\nSession key: {key}"
    )
