"""The end of all unfinished work in a copy of a home whose gateway went on after the copy was made.

The gateway has answered, sent and ended most of it since. A copy that did it again would answer people twice,
so everything that was under way ends here without an effect.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..db.engine import Db
from ..tables import chats, inbox, lives, outbox, processes, sessions
from . import settle


@dataclass(frozen=True, slots=True)
class Dropped:
    """The number of things that were under way."""

    turns: int
    messages: int
    deliveries: int


def drop_unfinished(db: Db, at: float) -> Dropped:
    """End every turn, message, delivery and process that has no end yet, and resume nothing."""
    for life in lives.living(db):
        lives.leave(db, life.life, at)
    chats.free(db)
    cut = settle.settle_cut_turns(db, at)
    for entry in sessions.marked(db):
        settle.clear_mark(db, entry.session_id, at)
    messages = sum(inbox.drop_pending(db, key, at) for key in inbox.keys_with_pending(db))
    for process in processes.alive(db):
        processes.end(db, process.process_id, None, at)
    return Dropped(len(cut), messages, outbox.give_up_all(db, "the home was restored from a backup", at))
