"""What somebody asks to be ended in a session: the turn that runs, what waits, the session itself.

The rows come first, in one transaction, and then the turn: whatever happens in between, nothing that was
dropped begins, and nothing of it is taken up again.
"""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING

from ...state.rules import settle
from ...state.tables import inbox, sessions, turns
from ...state.tables.session_entry import SessionEntry
from ...state.tables.turns import Outcome
from ..session.registry import BACKGROUND

if TYPE_CHECKING:
    from ..parts import Gateway


def stop(gateway: Gateway, key: str, how: Outcome) -> bool:
    """End the turn that runs in a session. False if none does."""
    task = gateway.sessions.task(key)
    if task is None:
        return False
    task.end(how)
    return True


async def let_go(gateway: Gateway, key: str, *, all_beside: bool = False) -> tuple[bool, int]:
    """End what runs in a session, drop what waits there, and let nothing of it be taken up again; also
    what works beside it, if that is asked. Returns whether anything was going on, and how many messages
    were dropped."""
    at, key_of = gateway.world.time(), gateway.store.key_of
    keys = [key, *(actor.key for actor in gateway.sessions.beside(key) if all_beside)]

    def step(db: sqlite3.Connection) -> tuple[int, int]:
        if all_beside:
            waiting = (row for other in inbox.keys_with_pending(db) for row in inbox.pending(db, other)[:1])
            places = [(row.session_key, row.event.source) for row in waiting]
            places += [(entry.session_key, entry.origin) for entry in sessions.marked(db) if entry.origin]
            keys.extend(k for k, source in places if k.startswith(BACKGROUND) and key_of(source) == key)
        dropped = cleared = 0
        for one in dict.fromkeys(keys):
            dropped += inbox.drop_pending(db, one, at)
            entry = sessions.open_by_key(db, one)
            if entry is not None:
                turns.stop(db, entry.session_id, at)
                cleared += settle.clear_mark(db, entry.session_id, at)
        return dropped, cleared

    dropped, cleared = await gateway.database.write(step)
    stopped = [stop(gateway, one, Outcome.STOPPED) for one in keys]
    return any(stopped) or cleared > 0, dropped


async def begin_anew(gateway: Gateway, key: str) -> int:
    """End the session of a chat, with what runs in it, and drop what waits for it; returns how many
    messages did."""
    at = gateway.world.time()

    def step(db: sqlite3.Connection) -> tuple[SessionEntry | None, int]:
        entry = sessions.open_by_key(db, key)
        if entry is not None:
            settle.end_session(db, entry.session_id, "session_reset", at)
        return entry, inbox.drop_pending(db, key, at)

    entry, dropped = await gateway.database.write(step)
    stop(gateway, key, Outcome.RESET)
    if entry is not None:
        gateway.background.end_of(entry.session_id)
    return dropped
