"""Deleting a session with everything that belongs to it: rows, journals, files and processes.

It ends the work of the session first, and touches no other session.
"""

from __future__ import annotations

from functools import partial

from ...base.world import World
from ...host.loop.worker import finished
from ...journal.writer import Journals
from ...state.db.database import Database
from ...state.db.engine import Db
from ...state.rules import settle
from ...state.tables import inbox
from ...state.tables.session_entry import SessionEntry
from ...state.tables.turns import Outcome
from ...tools.paths import remove_files
from ..home.open_home import Home
from ..session.work import Work


async def remove_session(home: Home, work: Work, entry: SessionEntry) -> None:
    """Delete a session of a gateway that runs. Its turn and its background processes are ended first."""
    await home.database.write(_end, entry, home.world.time())
    if entry.ended_at is None:
        work.running.end(entry.session_key, Outcome.RESET)
        await work.sessions.turn_ended(entry.session_key)
    await work.background.kill_all_and_wait(entry.session_id)
    await remove_stored(entry.session_id, home.database, home.journals, home.world)
    with home.worker("files") as runner:
        await finished(runner, partial(remove_files, home.path, entry.session_id))


async def remove_stored(session_id: str, database: Database, journals: Journals, world: World) -> None:
    """Delete the rows and the journals of a session in which nothing runs."""
    await database.write(settle.delete_session, session_id, world.time())
    await journals.delete_session(session_id)


def _end(db: Db, entry: SessionEntry, at: float) -> None:
    """End the session if it is open, and drop the messages that wait for it."""
    if settle.end_session(db, entry.session_id, "deleted", at):
        inbox.drop_pending(db, entry.session_key, at)
