"""The turns that an earlier life left open, and the messages of cut turns."""

from __future__ import annotations

import pytest

from hermes_trio.state.db.engine import Db
from hermes_trio.state.rules import settle
from hermes_trio.state.rules.settle import Settlement
from hermes_trio.state.tables import approvals, endings, inbox, sessions, turns
from hermes_trio.state.tables.approvals import ApprovalRow
from hermes_trio.state.tables.endings import EndingRow
from hermes_trio.state.tables.session_entry import Mark
from hermes_trio.state.tables.turns import Outcome, TurnRow
from tests.state.rows import NOON, everything, received, session, state_of, the_session, the_turn, turn

LATER = NOON + 60


def ending(life: str, reason: str) -> EndingRow:
    return EndingRow(life, "restart", "SIGUSR1", 0.0, reason, "stopped", NOON)


def test_open_turns_of_an_earlier_life_end_by_its_decided_ending(db: Db) -> None:
    endings.record(db, ending("restarted", "restart_timeout"))
    endings.record(db, ending("stopped", "shutdown_timeout"))
    lives = ["restarted", "stopped", "crashed"]
    rows = {}
    for number, life in enumerate(lives):
        session(db, f"s{number}", used_at=NOON + number)
        turn_id = turn(db, f"s{number}", run=f"r{number}", life=life)
        rows[turn_id] = received(db, f"m{number}", key=f"key of s{number}")
        inbox.join_turn(db, turn_id, [rows[turn_id]])
        approvals.ask(db, ApprovalRow(f"a{number}", turn_id, "question", "{}", NOON))
    session(db, "idle")
    order = [entry.session_id for entry in sessions.newest(db, limit=9)]

    found = settle.settle_cut_turns(db, LATER)
    assert [(cut.run_id, cut.life, cut.ended_at) for cut in found] == [
        (f"r{number}", life, None) for number, life in enumerate(lives)
    ], "the turns as they were before"
    reasons = ["restart_timeout", "shutdown_timeout", "crash"]
    assert [the_session(db, f"s{number}").mark for number in range(3)] == [
        Mark("resume_pending", reason, LATER) for reason in reasons
    ]
    ended = [the_turn(db, cut.turn_id) for cut in found]
    assert [(cut.outcome, cut.reason, cut.ended_at) for cut in ended] == [
        (Outcome.CUT, reason, LATER) for reason in reasons
    ]
    assert [state_of(db, inbox_id) for inbox_id in rows.values()] == [
        ("of_turn", turn_id) for turn_id in rows
    ]
    closed = [approvals.get(db, f"a{number}") for number in range(3)]
    assert all(asked is not None and asked.closed_at == LATER for asked in closed)
    assert the_session(db, "idle").mark is None, "only sessions with a cut turn are marked"
    assert [entry.session_id for entry in sessions.newest(db, limit=9)] == order, "no session was used"
    assert [the_session(db, f"s{number}").updated_at for number in range(3)] == [NOON, NOON + 1, NOON + 2]
    before = everything(db)
    assert settle.settle_cut_turns(db, LATER + 1) == []
    assert everything(db) == before


def test_a_turn_without_a_model_request_ends_unstarted_and_its_messages_wait(db: Db) -> None:
    session(db)
    first, second, third = (received(db, f"m{number}") for number in range(3))
    turn_id = turn(db, requested=False)
    inbox.join_turn(db, turn_id, [first, second])
    settle.settle_cut_turns(db, LATER)
    assert the_turn(db, turn_id).outcome is Outcome.UNSTARTED
    assert the_session(db).mark is None
    assert [row.inbox_id for row in inbox.pending(db, "key of s1")] == [first, second, third], (
        "in their old places"
    )
    assert turns.lives_cut_in_a_row(db, "s1") == 0


def test_a_cut_in_a_suspended_or_ended_session_sets_no_mark_and_closes_its_messages(
    db: Db,
) -> None:
    held = {}
    for name in ("suspended", "ended"):
        session(db, name)
        turn_id = turn(db, name, run=name)
        held[name] = received(db, name)
        inbox.join_turn(db, turn_id, [held[name]])
    settle.suspend(db, "suspended", NOON)
    settle.end_session(db, "ended", "session_reset", NOON)
    assert [state_of(db, row)[0] for row in held.values()] == ["of_turn", "of_turn"], "the turns still run"
    settle.settle_cut_turns(db, LATER)
    assert [state_of(db, row)[0] for row in held.values()] == ["done", "done"]
    assert the_session(db, "suspended").suspended
    assert the_session(db, "ended").mark is None


def cut_twice(db: Db) -> tuple[list[int], TurnRow]:
    """Add a marked session with two cut turns of one message each; return the messages and the last turn."""
    session(db)
    rows = []
    for number in (1, 2):
        rows.append(received(db, f"m{number}"))
        turn_id = turn(db, run=f"r{number}", life=f"life-{number}")
        inbox.join_turn(db, turn_id, rows[-1:])
        settle.settle(db, turn_id, Settlement(Outcome.CUT, "crash"), NOON)
    return rows, the_turn(db, turn_id)


@pytest.mark.parametrize("way", ["cleared", "suspended", "ended", "answered", "stopped"])
def test_messages_of_cut_turns_are_closed_whenever_the_mark_is_removed(db: Db, way: str) -> None:
    rows, cut = cut_twice(db)
    assert [state_of(db, row)[0] for row in rows] == ["of_turn", "of_turn"]
    match way:
        case "cleared":
            assert settle.clear_mark(db, "s1", LATER) is True
            assert settle.clear_mark(db, "s1", LATER) is False
        case "suspended":
            settle.suspend(db, "s1", LATER, "stuck")
        case "ended":
            settle.end_session(db, "s1", "idle", LATER)
        case outcome:
            again = turns.begin(db, run_id="r3", session_id="s1", life="l3", at=NOON, resumes=cut.turn_id)
            settle.settle(db, again, Settlement(Outcome(outcome)), LATER)
    assert [state_of(db, row)[0] for row in rows] == ["done", "done"]
    assert not the_session(db).resume_pending
    assert inbox.keys_with_pending(db) == [], "no message starts a turn at a later boot"


def test_only_a_resume_mark_can_be_cleared(db: Db) -> None:
    session(db)
    assert settle.clear_mark(db, "s1", LATER) is False
    settle.suspend(db, "s1", LATER, "stuck")
    assert settle.clear_mark(db, "s1", LATER) is False
    assert the_session(db).mark == Mark("suspended", "stuck", LATER)
    assert settle.clear_mark(db, "nowhere", LATER) is False


def test_a_second_end_of_a_session_changes_nothing(db: Db) -> None:
    rows, _ = cut_twice(db)
    assert settle.end_session(db, "s1", "session_reset", LATER) is True
    before = everything(db)
    assert settle.end_session(db, "s1", "idle", LATER + 1) is False
    settle.suspend(db, "s1", LATER + 1)
    assert everything(db) == before, "an ended session cannot be suspended"
    assert [state_of(db, row)[0] for row in rows] == ["done", "done"]
