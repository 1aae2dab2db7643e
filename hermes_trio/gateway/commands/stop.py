"""Ending work of a session on request: its running turn, its waiting messages, the session itself.

The rows come first, in one transaction, and then the turn. Whatever happens between the two, no dropped
message begins a turn and no stopped turn is resumed. A command from a platform is stored in the same
transaction: no kill leaves one that is stored and was not obeyed.

It may touch the rows of sessions, turns and the inbox, the running turns and the background processes.
"""

from __future__ import annotations

from collections.abc import Callable

from ...state.db.engine import Db
from ...state.rules import settle
from ...state.tables import inbox, sessions, turns
from ...state.tables.session_entry import SessionEntry
from ...state.tables.turns import Outcome
from ..home.open_home import Home
from ..processes.background import Background
from ..session.running_turns import BACKGROUND, RunningTurns

Step = Callable[[Db], object]
"""A part of a transaction. If it raises, nothing of the transaction is stored."""


def nothing(db: Db) -> None:
    """Store nothing."""


async def stop_session(
    home: Home, running: RunningTurns, key: str, *, with_background: bool = False, first: Step = nothing
) -> tuple[bool, int]:
    """End the running turn of a session, drop its waiting messages, and let none of it be resumed; with
    `with_background` also of the sessions in its background. `first` begins the transaction. Return whether
    anything ran or was to be resumed, and the number of dropped messages."""
    at, key_of = home.world.time(), home.store.key_of
    keys = [key]
    if with_background:
        keys += [other for other, _ in running.in_background(key)]

    def step(db: Db) -> tuple[int, int]:
        first(db)
        if with_background:
            waiting = (row for other in inbox.keys_with_pending(db) for row in inbox.pending(db, other)[:1])
            places = [(row.session_key, row.event.source) for row in waiting]
            places += [(entry.session_key, entry.origin) for entry in sessions.marked(db) if entry.origin]
            keys.extend(k for k, source in places if k.startswith(BACKGROUND) and key_of(source) == key)
        dropped = cleared = 0
        for one in dict.fromkeys(keys):
            dropped += inbox.drop_pending(db, one, at)
            session_id = sessions.open_id(db, one)
            if session_id is not None:
                turns.note_stop(db, session_id, at)
                cleared += settle.clear_mark(db, session_id, at)
        return dropped, cleared

    dropped, cleared = await home.database.write(step)
    stopped = [running.end(one, Outcome.STOPPED) for one in keys]
    return any(stopped) or cleared > 0, dropped


async def reset_session(
    home: Home, running: RunningTurns, background: Background, key: str, *, first: Step = nothing
) -> int:
    """End the session of a chat with everything that runs in it, and drop its waiting messages. `first`
    begins the transaction. Return the number of dropped messages."""
    at = home.world.time()

    def step(db: Db) -> tuple[SessionEntry | None, int]:
        first(db)
        entry = sessions.open_by_key(db, key)
        if entry is not None:
            settle.end_session(db, entry.session_id, "session_reset", at)
        return entry, inbox.drop_pending(db, key, at)

    entry, dropped = await home.database.write(step)
    running.end(key, Outcome.RESET)
    if entry is not None:
        background.kill_all(entry.session_id)
    return dropped
