"""Whose is the chat of a session or of a run, where several gateways share the store.

It may touch the tables of chats, sessions, turns, questions and messages, and changes none of them.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...base.messages import SessionSource
from ...state.db.engine import Db
from ...state.tables import approvals, chats, inbox, sessions, turns
from ...state.tables.turns import TurnRow
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


@dataclass(frozen=True, slots=True)
class TurnElsewhere:
    """A turn that runs in another gateway."""

    turn: TurnRow
    asks_for: str | None
    """The kind of its oldest open question."""


def turns_elsewhere(db: Db, life: str) -> dict[str, TurnElsewhere]:
    """Return the turns that run in other gateways, by their sessions."""
    return {
        turn.session_id: TurnElsewhere(
            turn, next((one.kind for one in approvals.open_of_turn(db, turn.turn_id)), None)
        )
        for turn in turns.unended(db)
        if turn.life != life
    }


def _owner(db: Db, source: SessionSource) -> str | None:
    return chats.owner_of(db, source.platform, source.account, source.chat_id)
