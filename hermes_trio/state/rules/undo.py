"""Undoing the last exchange of a session: the person's messages and their answer.

The turns keep their rows, so that their journals do not look like lost runs, but nothing of them is recovered
or resumed any more.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...base.messages import Attachment
from ..db.engine import Db
from ..tables import compactions, inbox, transcript, turns
from . import settle


@dataclass(frozen=True, slots=True)
class UndoneExchange:
    """The person's messages in an exchange that was undone."""

    text: str
    attachments: tuple[Attachment, ...]


def undo(db: Db, session_id: str, at: float) -> UndoneExchange | None:
    """Delete the last exchange from the transcript, and return the person's messages. Return None if there is
    no exchange, or while a turn runs. A resumed turn and the turns that resume it are one exchange."""
    rows = [row for row in transcript.load(db, session_id) if row.turn_id is not None]
    if not rows or turns.runs_in(db, session_id):
        return None
    first = turns.get(db, rows[-1].turn_id or 0)
    while first is not None and first.resumes is not None:
        first = turns.get(db, first.resumes)
    if first is None:
        return None
    # Include later turns without rows, such as a second cut: their journals would be recovered later.
    exchange = [turn.turn_id for turn in turns.of_session(db, session_id) if turn.turn_id >= first.turn_id]
    settle.clear_mark(db, session_id, at)
    compactions.forget_from(db, session_id, first.turn_id)
    files: list[Attachment] = []
    for turn_id in exchange:
        inbox.close_turn(db, turn_id, at)
        files += [file for row in inbox.ever_of_turn(db, turn_id) for file in row.event.attachments]
        transcript.forget_turn(db, turn_id)
        turns.drop_recovery(db, turn_id)
    said = (row.content for row in rows if row.turn_id in exchange and row.role == "user" and row.content)
    return UndoneExchange("\n\n".join(said), tuple(files))
