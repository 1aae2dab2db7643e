"""Deletion of old rows, in steps small enough to delay no other write.

A session may have so many rows that deleting it at once would block every other write. So it is ended first,
which prevents its further use, then its messages are deleted in parts, and its own row last. A kill between
two parts leaves an ended session, and the next round continues with it.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from ..db.engine import Db
from ..tables import approvals, endings, inbox, lives, outbox, sessions, transcript
from . import settle

BATCH = 500
"""The approximate maximum number of rows that one step deletes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cutoffs:
    """For each table the time before which finished rows are deleted."""

    inbox: float
    outbox: float
    approvals: float
    endings: float


def forget_done(db: Db, before: Cutoffs) -> bool:
    """Delete some finished rows. Return True if there may be more."""
    lives.prune(db, over_before=before.endings)
    removed = (
        inbox.prune(db, done_before=before.inbox, limit=BATCH),
        outbox.prune(db, done_before=before.outbox, limit=BATCH),
        approvals.prune(db, closed_before=before.approvals, limit=BATCH),
        endings.prune(db, recorded_before=before.endings, limit=BATCH),
    )
    return BATCH in removed


def forget_sessions(
    db: Db, *, used_before: float, at: float, keep: Collection[str] = ()
) -> tuple[list[str], bool]:
    """Delete some sessions that were last used before a time and have no pending work, except `keep`. Return
    the ids of the deleted ones, and whether there may be more."""
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
