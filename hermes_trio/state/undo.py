"""Taking back the last exchange of a session: what was said and what was answered, as if it had not been.

The turns keep their rows, so that nobody takes their journals for something lost; but nothing of them is
recovered or resumed any more.
"""

from __future__ import annotations

import sqlite3

from . import inbox, settle, transcript, turns


def undo(db: sqlite3.Connection, session_id: str, at: float) -> str | None:
    """Forget the last exchange; returns what the person had said in it, None if there is none. A turn
    that took up a cut one goes together with it."""
    rows = [row for row in transcript.load(db, session_id) if row.turn_id is not None]
    if not rows:
        return None
    exchange = {rows[-1].turn_id}
    turn = turns.get(db, rows[-1].turn_id or 0)
    while turn is not None and turn.resumes is not None:
        exchange.add(turn.resumes)
        turn = turns.get(db, turn.resumes)
    settle.clear_mark(db, session_id, at)
    for turn_id in exchange:
        db.execute("DELETE FROM messages WHERE turn_id = ?", (turn_id,))
        db.execute("UPDATE turns SET recovery = NULL WHERE turn_id = ?", (turn_id,))
        inbox.close_turn(db, turn_id or 0, at)
    return "\n\n".join(row.content for row in rows if row.turn_id in exchange and row.role == "user")
