"""Whose is the chat of a session or of a run, where several gateways share the store.

It may touch the tables of chats, sessions, turns and messages, and changes none of them.
"""

from __future__ import annotations

from ...base.messages import SessionSource
from ...state.db.engine import Db
from ...state.tables import chats, inbox, sessions, turns
from .api_sessions import source_of


def owner_of_session(db: Db, session_id: str) -> str | None:
    """Return the life that owns the chat of a session, which may be one of the API that is not stored yet;
    None for nobody's."""
    entry = sessions.by_id(db, session_id)
    origin = entry.origin if entry is not None else None
    return _owner(db, origin or source_of(session_id))


def owner_of_run(db: Db, run_id: str) -> str | None:
    """Return the life that owns the chat of a run, which may not have begun; None for nobody's."""
    if (turn := turns.by_run(db, run_id)) is not None:
        return owner_of_session(db, turn.session_id)
    message = inbox.by_run(db, run_id)
    return _owner(db, message.event.source) if message is not None else None


def _owner(db: Db, source: SessionSource) -> str | None:
    return chats.owner_of(db, source.platform, source.account, source.chat_id)
