"""The transaction that ends a turn, and everything else that follows from an end.

One table says what each outcome does to the rows around it (`turns.END_EFFECTS`); these functions do it. They
are steps of the database: all of it is committed, or none. Ten thousand turns may be cut at once and have
two seconds, so an end changes rows by their keys and reads none that it does not need.
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass

from ..tables import approvals, endings, inbox, outbox, sessions, transcript, turns
from ..tables.outbox import Owed
from ..tables.session_entry import Mark, ResumeReason, SessionEntry, Usage
from ..tables.transcript import TranscriptRow
from ..tables.turns import END_EFFECTS, Outcome, TurnRow

MOST_CRASHES = 3
"""So often it is begun again with messages whose turns have crashed before they had asked a model."""


@dataclass(frozen=True, slots=True)
class Settlement:
    """How a turn ends: its last rows and what the chat is owed for it."""

    outcome: Outcome
    reason: str | None = None
    rows: tuple[TranscriptRow, ...] = ()
    owed: tuple[Owed, ...] = ()
    usage: Usage | None = None


def settle(db: sqlite3.Connection, turn_id: int, settlement: Settlement, at: float) -> Outcome | None:
    """End a turn with all that belongs to its end, and return how it has ended. None, and nothing at all
    happens, if it has an end already: the first one wins."""
    ended = _end(db, turn_id, settlement.outcome, settlement.reason, at)
    if ended is None:
        return None
    outcome, session_id = ended
    for row in settlement.rows:
        transcript.append(db, session_id, row)
    for owed in settlement.owed:
        outbox.owe(db, owed, at)
    if settlement.usage is not None:
        sessions.add_usage(db, session_id, settlement.usage)
    sessions.touch(db, session_id, at)
    return outcome


def settle_cut_turns(db: sqlite3.Connection, at: float) -> list[TurnRow]:
    """End the turns that a former life left without an end, by what that life had decided, or as a
    crash. Returns them as they were. Called at a start, before any turn begins; moves no session in a
    list, since nobody used it."""
    found = turns.unended(db)
    for turn in found:
        ending = endings.of_life(db, turn.life)
        reason = ending.resume_reason if ending else ResumeReason.CRASH
        outcome = Outcome.UNSTARTED if turn.requested_at is None else Outcome.CUT
        _end(db, turn.turn_id, outcome, reason, at)
    return found


def clear_mark(db: sqlite3.Connection, session_id: str, at: float) -> bool:
    """Clear a resume mark, and with it close the messages of the turns it stood for: they must not
    start a turn at a later boot. False if the session was not marked."""
    if not sessions.unmark_cut(db, session_id):
        return False
    inbox.close_cut_turns(db, session_id, at)
    return True


def suspend(db: sqlite3.Connection, session_id: str, at: float, reason: str | None = None) -> None:
    """Let the next message begin a fresh session, whatever else was to happen."""
    inbox.close_cut_turns(db, session_id, at)
    sessions.set_mark(db, session_id, Mark("suspended", reason, at))


def suspend_stuck(db: sqlite3.Connection, limit: int, at: float) -> list[SessionEntry]:
    """Suspend the sessions that were cut in so many lives in a row without a good turn between, and
    return them as they were."""
    stuck = [
        entry for entry in sessions.marked(db) if 0 < limit <= turns.lives_cut_in_a_row(db, entry.session_id)
    ]
    for entry in stuck:
        suspend(db, entry.session_id, at, reason="stuck")
    return stuck


def end_session(db: sqlite3.Connection, session_id: str, reason: str, at: float) -> bool:
    """End a session for ever; what its cut turns still hold is closed. False if it had ended before."""
    inbox.close_cut_turns(db, session_id, at)
    return sessions.end(db, session_id, reason, at)


def delete_session(db: sqlite3.Connection, session_id: str, at: float) -> bool:
    """Remove a session with all that is only its own; what its turns still hold is closed. What waits or
    is owed belongs to the chat and stays. Its journals are a directory: whoever deletes a session removes
    that too, and ends its processes before. False if there is none."""
    inbox.close_session(db, session_id, at)
    return sessions.delete(db, session_id)


def _end(
    db: sqlite3.Connection, turn_id: int, how: Outcome, reason: str | None, at: float
) -> tuple[Outcome, str] | None:
    before_asking = how is Outcome.UNSTARTED and reason == ResumeReason.CRASH
    if before_asking and turns.crashes_before_asking(db, turn_id) >= MOST_CRASHES:
        how = Outcome.CUT  # a message that brings down each life which begins with it would do so for ever
    ended = turns.end(db, turn_id, how, at, reason)
    if ended is None:
        return None
    outcome, session_id = ended
    approvals.close_of_turn(db, turn_id, at)
    ends = END_EFFECTS[outcome]
    if ends.inbox == "done":
        inbox.close_turn(db, turn_id, at)
    elif ends.inbox == "pending":
        inbox.reopen_turn(db, turn_id)
        transcript.forget_turn(db, turn_id)  # the turn that answers them writes them down
    if ends.mark == "cleared":
        clear_mark(db, session_id, at)
    elif ends.mark == "set" and not sessions.mark_cut(db, session_id, reason, at):
        inbox.close_turn(db, turn_id, at)  # no mark would ever close its messages
    return ended
