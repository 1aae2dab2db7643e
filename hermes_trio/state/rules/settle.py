"""The transactions that end a turn or a session, with all effects of that end.

The table `turns.END_EFFECTS` lists the effects of each outcome; the functions here apply them. They are steps
of the database: all of it is committed, or nothing. Ten thousand turns may be cut at once and have two
seconds, so the end of a turn updates rows by key and reads only what it needs.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..db.engine import Db
from ..tables import approvals, endings, inbox, outbox, sessions, transcript, turns
from ..tables.approvals import ApprovalRow
from ..tables.outbox import Owed
from ..tables.session_entry import Mark, ResumeReason, SessionEntry, Usage
from ..tables.transcript import TranscriptRow
from ..tables.turns import END_EFFECTS, Outcome, TurnRow

MOST_CRASHES = 3
"""The number of times that a turn is started again after crashes before its first request to a model."""


@dataclass(frozen=True, slots=True)
class Settlement:
    """The end of a turn: its outcome, its last transcript rows, and the messages owed to the chat."""

    outcome: Outcome
    reason: str | None = None
    rows: tuple[TranscriptRow, ...] = ()
    owed: tuple[Owed, ...] = ()
    usage: Usage | None = None


@dataclass(frozen=True, slots=True)
class EndedTurn:
    """The end of a turn as it was stored."""

    outcome: Outcome
    session_id: str
    closed: list[ApprovalRow]
    """The questions that it leaves open, and that are closed now."""


def settle(db: Db, turn_id: int, settlement: Settlement, at: float) -> EndedTurn | None:
    """End a turn: in one transaction store its outcome, effects, last rows, owed messages and usage. Return
    the end; None, and nothing is stored, if it has an end already: the first one wins."""
    ended = _end_turn(db, turn_id, settlement.outcome, settlement.reason, at)
    if ended is None:
        return None
    session_id = ended.session_id
    sessions.touch(db, session_id, at)
    if settlement.usage is not None:
        sessions.add_usage(db, session_id, settlement.usage)
    for row in settlement.rows:
        transcript.append(db, session_id, row)
    for owed in settlement.owed:
        outbox.owe(db, owed, at)
    return ended


def settle_cut_turns(db: Db, at: float) -> list[TurnRow]:
    """End the turns that lives which are over left open, by the ending that such a life had decided, or as
    crashed. Return them as they were. Does not count as a use of their sessions, so lists keep their
    order."""
    found = turns.left_open(db)
    for turn in found:
        ending = endings.of_life(db, turn.life)
        reason = ending.resume_reason if ending else ResumeReason.CRASH
        outcome = Outcome.UNSTARTED if turn.requested_at is None else Outcome.CUT
        _end_turn(db, turn.turn_id, outcome, reason, at)
    return found


def clear_mark(db: Db, session_id: str, at: float) -> bool:
    """Clear the resume mark of a session and close the messages of its cut turns, which must not start a turn
    at a later boot. Return False if the session had no such mark."""
    if not sessions.unmark_cut(db, session_id):
        return False
    inbox.close_cut_turns(db, session_id, at)
    return True


def suspend(db: Db, session_id: str, at: float, reason: str | None = None) -> None:
    """Suspend a session: its next message starts a new one, and its cut turns are not resumed."""
    inbox.close_cut_turns(db, session_id, at)
    sessions.set_mark(db, session_id, Mark("suspended", reason, at))


def suspend_stuck(db: Db, limit: int, at: float) -> list[SessionEntry]:
    """Suspend the marked sessions that were cut in at least `limit` lives since their last answered turn, and
    return them as they were. A `limit` of 0 suspends none."""
    stuck = [
        entry for entry in sessions.marked(db) if 0 < limit <= turns.lives_cut_in_a_row(db, entry.session_id)
    ]
    for entry in stuck:
        suspend(db, entry.session_id, at, reason="stuck")
    return stuck


def end_session(db: Db, session_id: str, reason: str, at: float) -> bool:
    """End a session for ever, and close the messages of its cut turns. Return False if it has ended."""
    inbox.close_cut_turns(db, session_id, at)
    return sessions.end(db, session_id, reason, at)


def delete_session(db: Db, session_id: str, at: float) -> bool:
    """Delete a session with its turns, transcript, processes and approvals, and close the messages of its
    turns. Waiting messages and owed ones belong to the chat and stay. The caller ends its processes before,
    and deletes its journal directory after. Return False if there is no such session."""
    inbox.close_session(db, session_id, at)
    return sessions.delete(db, session_id)


def _end_turn(db: Db, turn_id: int, how: Outcome, reason: str | None, at: float) -> EndedTurn | None:
    before_asking = how is Outcome.UNSTARTED and reason == ResumeReason.CRASH
    if before_asking and turns.crashes_before_asking(db, turn_id) >= MOST_CRASHES:
        how = Outcome.CUT  # a message that crashes the gateway at each start would do so for ever
    end = turns.ask_end(db, turn_id, how, at, reason)
    is_marked = sessions.ask_marked(db, turn_id)
    closed = approvals.close_of_turn(db, turn_id, at)  # a turn that has ended has no open ones
    ended = end()
    if ended is None:
        return None
    outcome, session_id = ended
    ends = END_EFFECTS[outcome]
    if ends.inbox == "done":
        inbox.close_turn(db, turn_id, at)
    elif ends.inbox == "pending":
        inbox.reopen_turn(db, turn_id)
        transcript.forget_turn(db, turn_id)  # the turn that answers the messages stores them again
    if ends.mark == "cleared" and is_marked():
        clear_mark(db, session_id, at)
    elif ends.mark == "set" and not sessions.mark_cut(db, session_id, reason, at):
        inbox.close_turn(db, turn_id, at)  # without a mark nothing else would close its messages
    return EndedTurn(outcome, session_id, closed())
