"""The transcripts of the sessions that had a turn lately, so that a turn reads only the rows that are new.

The rows in the database are the transcript. The kept rows are compared with them when a turn begins
(`transcript.load_after`). All transcripts together have a limit in bytes. The one that was used longest ago
is dropped first, and read again when it is needed.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

from ...state.tables.transcript import KnownRows, TranscriptRow, position

MOST_BYTES = 64 << 20
BYTES_OF_A_ROW = 400
"""About the size of a row in memory without its texts."""


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


class HistoryCache:
    """The transcripts in memory, by session key."""

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self.size = 0
        """Their bytes, about."""
        self._most_bytes = most_bytes
        self._cached: OrderedDict[str, CachedHistory] = OrderedDict()

    def get(self, key: str) -> CachedHistory:
        """Return the transcript of this session; an empty one if it is not in memory."""
        return self._cached.get(key) or CachedHistory()

    def put(self, key: str, history: CachedHistory) -> None:
        """Keep the transcript of this session, and drop others if there are too many."""
        self.drop(key)
        self._cached[key] = history
        self.size += history.size
        while self.size > self._most_bytes and self._cached:
            self.drop(next(iter(self._cached)))

    def drop(self, key: str) -> None:
        """Forget the transcript of this session."""
        former = self._cached.pop(key, None)
        if former is not None:
            self.size -= former.size


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
        former.size + sum(map(_size, rows)),
    )


def _size(row: TranscriptRow) -> int:
    texts = (row.content, row.reasoning, row.opaque, *(call.arguments for call in row.tool_calls))
    return BYTES_OF_A_ROW + sum(len(text) for text in texts if text)
