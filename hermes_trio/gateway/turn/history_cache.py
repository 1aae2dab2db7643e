"""The transcripts of the sessions that had a turn lately, so that a turn reads only the rows that are new.

The rows in the database are the transcript. The kept rows are compared with them when a turn begins
(`transcript.ask_after`). All transcripts together have a limit in bytes. One that was dropped is read again
when it is needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...state.db.engine import Db
from ...state.tables import sessions, transcript
from ...state.tables.transcript import KnownRows, TranscriptRow, bytes_of, position

MOST_BYTES = 64 << 20
"""Limit for the transcripts of all sessions."""


@dataclass(slots=True)
class CachedHistory:
    """The transcript of a session, as its last turn found it."""

    session_id: str = ""
    rows: tuple[TranscriptRow, ...] = ()
    newest: int = 0
    size: int = 0

    @property
    def known(self) -> KnownRows:
        """The rows, as they are compared with the database."""
        last = position(self.rows[-1]) if self.rows else (0, 0, 0)
        return KnownRows(len(self.rows), self.newest, last)


def extended(
    former: CachedHistory, session_id: str, rows: Sequence[TranscriptRow], *, are_new: bool
) -> CachedHistory:
    """Return the former transcript with these new rows; or these rows alone, if they are all rows."""
    if not are_new:
        former = CachedHistory()
    return CachedHistory(
        session_id,
        (*former.rows, *rows),
        max([former.newest, *(row.id or 0 for row in rows)]),
        former.size + sum(map(bytes_of, rows)),
    )


def stored_history(db: Db, key: str, session_id: str) -> tuple[str, list[TranscriptRow]]:
    """Return the id of a session and its stored rows. An empty id means the open session of this key; it
    stays empty if there is none."""
    if not session_id and (entry := sessions.open_by_key(db, key)) is not None:
        session_id = entry.session_id
    return session_id, transcript.load(db, session_id) if session_id else []
