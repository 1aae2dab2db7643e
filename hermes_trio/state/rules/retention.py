"""What the database forgets, in steps so small that nobody waits for one.

A session can hold so much that removing it at once would hold up every other write. So it is ended
first, which nobody can undo by using it, then its rows go in pieces, and its own row last. A kill between
two pieces leaves an ended session that the next round goes on with.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection
from dataclasses import dataclass

from ..tables import approvals, endings, inbox, outbox, sessions, transcript
from . import settle

BATCH = 500
"""Rows that one step removes at most, give or take one session's turns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cutoffs:
    """The times before which what is over is forgotten."""

    inbox: float
    outbox: float
    approvals: float
    endings: float


def forget_done(db: sqlite3.Connection, before: Cutoffs) -> bool:
    """Forget some of what is done. True if there may be more."""
    removed = (
        inbox.prune(db, done_before=before.inbox, limit=BATCH),
        outbox.prune(db, done_before=before.outbox, limit=BATCH),
        approvals.prune(db, closed_before=before.approvals, limit=BATCH),
        endings.prune(db, recorded_before=before.endings, limit=BATCH),
    )
    return BATCH in removed


def forget_sessions(
    db: sqlite3.Connection, *, used_before: float, at: float, keep: Collection[str] = ()
) -> tuple[list[str], bool]:
    """Forget some of the sessions that nobody used since a time and that nothing waits for. Returns the
    ids of those that are gone, and whether there may be more."""
    gone: list[str] = []
    left = BATCH
    for session_id in sessions.prunable(db, used_before=used_before):
        if session_id in keep:
            continue
        settle.end_session(db, session_id, "expired", at)
        left -= 1 + transcript.remove(db, session_id, limit=left)
        if left <= 0:
            return gone, True
        settle.delete_session(db, session_id, at)
        gone.append(session_id)
    return gone, False
