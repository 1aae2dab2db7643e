"""Batches: messages that one turn answers together, such as an album that arrives picture by picture, or a
thought in three lines.

Pure functions. A batch depends only on the senders and the times of arrival, so it is the same however often
it is computed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from ...state.tables.inbox import Received

QUIET = 0.35
"""Longest pause in seconds between two lines of one thought."""
LONGEST = 1.0
"""Longest time in seconds from its first line to its last."""
ALBUM_QUIET = 1.0
"""Longest pause in seconds between two messages of which one has a file."""
LONGEST_WAIT = 5.0
"""Longest wait in seconds for the rest of an album."""


def next_batch(waiting: Sequence[Received]) -> tuple[list[Received], float]:
    """Return the waiting messages that the next turn answers, and the time when they are complete: text
    messages are complete at once, an album after a pause."""
    rows: list[Received] = []
    for row in waiting:
        if rows and not _go_together(rows, row):
            break
        rows.append(row)
    if any(row.event.attachments for row in rows):
        return rows, min(rows[-1].received_at + ALBUM_QUIET, rows[0].received_at + LONGEST_WAIT)
    return rows, -math.inf


def _go_together(rows: Sequence[Received], row: Received) -> bool:
    if row.event.source != rows[0].event.source or "internal" in (row.event.kind, rows[0].event.kind):
        return False
    if row.event.run_id or rows[0].event.run_id:
        return False  # each has a promised run of its own
    pause = row.received_at - rows[-1].received_at
    if rows[-1].event.attachments or row.event.attachments:
        return pause <= ALBUM_QUIET
    return pause <= QUIET and row.received_at - rows[0].received_at <= LONGEST
