"""Messages that belong together: an album that arrives picture by picture, a thought in three lines.

They are one turn. Whether they belong together is decided from who wrote them and when they arrived, so
that it comes out the same however often it is asked.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from ...state.tables.inbox import Received

QUIET = 0.35
"""Seconds between two lines of one thought, at most."""
LONGEST = 1.0
"""Seconds from its first line to its last, at most."""
ALBUM_QUIET = 1.0
"""Seconds between two messages of which one brings a file."""
LONGEST_WAIT = 5.0
"""Seconds that anybody waits for the rest of an album."""


def first_of(waiting: Sequence[Received]) -> list[Received]:
    """The messages, of those that wait, that the next turn answers."""
    rows: list[Received] = []
    for row in waiting:
        if rows and not _go_together(rows, row):
            break
        rows.append(row)
    return rows


def may_go_on_until(rows: Sequence[Received]) -> float:
    """Until when it is worth waiting for more: of a text nobody expects more."""
    if any(row.event.attachments for row in rows):
        return min(rows[-1].received_at + ALBUM_QUIET, rows[0].received_at + LONGEST_WAIT)
    return -math.inf


def _go_together(rows: Sequence[Received], row: Received) -> bool:
    if row.event.source != rows[0].event.source or "internal" in (row.event.kind, rows[0].event.kind):
        return False
    if row.event.run_id or rows[0].event.run_id:
        return False  # each was promised a run of its own
    pause = row.received_at - rows[-1].received_at
    if rows[-1].event.attachments or row.event.attachments:
        return pause <= ALBUM_QUIET
    return pause <= QUIET and row.received_at - rows[0].received_at <= LONGEST
