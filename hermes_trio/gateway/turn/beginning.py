"""The beginning of a turn: one transaction that finds its session, stores its row, lets its messages join it,
and reads what its agent needs to know.

A turn begins completely or not at all. If its messages were dropped since it was decided, nothing is stored;
if its agent cannot be called, the beginning is undone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...base.world import World
from ...config.schema import GatewayConfig, reset_policy
from ...state.db.engine import Db
from ...state.rules import settle
from ...state.rules.ownership import ask_owner
from ...state.rules.reset_policy import KNOWN_REASONS, notice_due
from ...state.rules.settle import Settlement
from ...state.rules.store import use_found
from ...state.tables import inbox, processes, sessions, transcript, turns
from ...state.tables.inbox import Received
from ...state.tables.processes import ProcessRow
from ...state.tables.session_entry import SessionEntry
from ...state.tables.transcript import KnownRows, TranscriptRow
from ...state.tables.turns import Outcome
from .system_notes import reset_notice


@dataclass(frozen=True, slots=True)
class Beginning:
    """The turn to begin."""

    session_key: str
    rows: Sequence[Received]
    """The messages that it answers; none for a resumed turn."""
    resumed_session: str
    """The session of the cut turn that it resumes; empty for none."""
    resumes: int | None
    run_id: str
    """The id of its run, unless a run of that id was cut before it had begun."""
    other_run_id: str
    """The id of its run in that case."""
    life: str
    owner: str | None
    """The life that must own the chat; None in a gateway that is alone."""
    known_session: str
    known: KnownRows
    """The part of the transcript of that session which is in memory."""
    asks_at_once: bool
    """True if nothing stands between the beginning and the first request to a model: the turn counts as one
    that has asked."""


@dataclass(frozen=True, slots=True)
class BegunTurn:
    """A turn that has begun, with what its agent needs to know."""

    entry: SessionEntry
    run_id: str
    turn_id: int
    rows: list[TranscriptRow]
    """The stored transcript before this turn."""
    are_new: bool
    """True if these rows follow the known ones; False if they are all rows."""
    is_healed: bool
    """False if the journal of a cut turn may have more of the history."""
    ended: tuple[ProcessRow, ...]
    """Background processes that ended with a former life, and that the model has not been told of."""


def begin_turn(db: Db, what: Beginning, config: GatewayConfig, world: World) -> BegunTurn | None:
    """Begin a turn. Return None, with nothing stored, if its messages or the cut turn were dropped since it
    was decided. Raises `ForeignChat`."""
    at, rows = world.time(), what.rows
    is_known = turns.ask_known(db, what.run_id)
    if what.resumes is None:
        source = rows[0].event.source
        all_wait = inbox.ask_pending(db, [row.inbox_id for row in rows])
        check_owner = ask_owner(db, what.owner, source.platform, source.account, source.chat_id)
        current = sessions.open_by_key(db, what.session_key)
        if not all_wait():
            return None
        check_owner()
        entry = use_found(db, current, what.session_key, source, config, world)
    else:
        found = sessions.by_id(db, what.resumed_session)
        # Checked again: the platform may have connected a second time since.
        if found is None or not found.resume_pending or turns.resume_of(db, what.resumes):
            return None
        entry = found
        if (origin := entry.origin) is not None:
            ask_owner(db, what.owner, origin.platform, origin.account, origin.chat_id)()
    session_id = entry.session_id
    is_cached = session_id == what.known_session
    new_rows = transcript.ask_after(db, session_id, what.known if is_cached else KnownRows(0, 0, (0, 0, 0)))
    is_recovering = turns.ask_recovering(db, session_id)
    untold = processes.ask_untold(db, session_id, what.life)
    run_id = what.other_run_id if is_known() else what.run_id
    turn_id = turns.begin(
        db, run_id=run_id, session_id=session_id, life=what.life, at=at, resumes=what.resumes
    )
    history, follow = new_rows()
    begun = BegunTurn(
        entry, run_id, turn_id, history, is_cached and follow, not is_recovering(), tuple(untold())
    )
    if what.asks_at_once:
        turns.note_request(db, turn_id, at)
    inbox.join_turn(db, turn_id, [row.inbox_id for row in rows])
    for row in rows:
        said = TranscriptRow("user", row.event.text, row.received_at, turn_id, files=row.event.files)
        transcript.append(db, session_id, said)
    return begun


def undo_beginning(db: Db, run_id: str, at: float) -> None:
    """Undo the beginning of a turn whose agent was not called: its messages wait again, and the cut turn that
    it resumes is resumed later. A turn that a person stopped meanwhile ends as stopped."""
    turn = turns.by_run(db, run_id)
    if turn is None or turn.outcome is not None:
        return
    ended = settle.settle(db, turn.turn_id, Settlement(Outcome.UNSTARTED), at)
    if ended is not None and ended.outcome is Outcome.UNSTARTED:
        turns.remove(db, turn.turn_id)


def notice_of_reset(entry: SessionEntry, platform: str, config: GatewayConfig) -> str | None:
    """Return the notice that a session was reset automatically, if the policy wants one."""
    reason = KNOWN_REASONS.get(entry.auto_reset_reason or "")
    policy = reset_policy(config, platform, entry.chat_type)
    activity = entry.reset_had_activity
    if reason and notice_due(policy, reason=reason, platform=platform, had_activity=activity):
        return reset_notice(reason, policy)
    return None
