"""Turn rows: one running turn in a session, the first end wins, and cuts are counted from the rows."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hermes_trio.state.db.engine import Db
from hermes_trio.state.tables import sessions, turns
from hermes_trio.state.tables.turns import Outcome, Recovery, TurnRow
from tests.state.rows import NOON, session, texts, the_turn, turn, undone
from tests.state.seams import refused


def test_a_turn_has_a_row_from_begin_to_end(db: Db) -> None:
    session(db)
    turn_id = turns.begin(db, run_id="r1", session_id="s1", life="life-1", at=NOON)
    assert turns.get(db, turn_id) == TurnRow(turn_id, "r1", "s1", "life-1", NOON)
    turns.note_request(db, turn_id, NOON + 1)
    turns.note_request(db, turn_id, NOON + 9)
    assert turns.by_run(db, "r1") == TurnRow(turn_id, "r1", "s1", "life-1", NOON, requested_at=NOON + 1)
    assert turns.ask_end(db, turn_id, Outcome.FAILED, NOON + 2, "the model was not there")() == (
        Outcome.FAILED,
        "s1",
    )
    assert turns.get(db, turn_id) == TurnRow(
        turn_id,
        "r1",
        "s1",
        "life-1",
        NOON,
        requested_at=NOON + 1,
        ended_at=NOON + 2,
        outcome=Outcome.FAILED,
        reason="the model was not there",
    )
    assert turns.get(db, turn_id + 1) is None
    assert turns.by_run(db, "r2") is None


def test_a_second_running_turn_in_a_session_is_refused(db: Db) -> None:
    session(db)
    session(db, "s2")
    first = turn(db, run="r1")
    with refused("UNIQUE"):
        turn(db, run="r2")
    turn(db, "s2", run="r3")
    turns.ask_end(db, first, Outcome.ANSWERED, NOON)()
    turn(db, run="r4")
    assert [found.run_id for found in turns.unended(db)] == ["r3", "r4"]
    assert [found.run_id for found in turns.of_session(db, "s1")] == ["r1", "r4"]


def test_a_run_id_is_unique_and_a_turn_needs_an_existing_session(db: Db) -> None:
    session(db)
    turn(db, run="r1", ended=Outcome.ANSWERED)
    with refused("UNIQUE"):
        turn(db, run="r1")
    with refused("FOREIGN KEY"):
        turn(db, "nowhere", run="r2")


@pytest.mark.parametrize("first", Outcome)
@pytest.mark.parametrize("second", Outcome)
def test_the_first_end_of_a_turn_wins(db: Db, first: Outcome, second: Outcome) -> None:
    session(db)
    turn_id = turn(db)
    assert turns.ask_end(db, turn_id, first, NOON + 1, "first")() == (first, "s1")
    ended = the_turn(db, turn_id)
    assert turns.ask_end(db, turn_id, second, NOON + 2, "second")() is None
    assert the_turn(db, turn_id) == ended
    assert (ended.outcome, ended.ended_at, ended.reason) == (first, NOON + 1, "first")


@pytest.mark.parametrize("outcome", Outcome)
def test_only_a_cut_turn_starts_a_recovery(db: Db, outcome: Outcome) -> None:
    session(db)
    ended = the_turn(db, turn(db, ended=outcome))
    cut = outcome is Outcome.CUT
    assert (ended.recovery, ended.recovery_since) == ((Recovery.ARRIVING, NOON) if cut else (None, None))


def test_a_recovery_based_on_an_outdated_row_is_not_stored(db: Db) -> None:
    session(db)
    seen = the_turn(db, turn(db, ended=Outcome.CUT))
    mine = replace(seen, recovery_attempts=1, recovery_bytes=100)
    theirs = replace(
        seen,
        recovery=Recovery.FAILED,
        recovery_note="what the run said",
        recovery_attempts=2,
        recovery_bytes=200,
        recovery_since=NOON + 5,
    )
    assert turns.note_recovery(db, seen, theirs) is True
    assert the_turn(db, seen.turn_id) == theirs
    assert turns.note_recovery(db, seen, mine) is False
    assert the_turn(db, seen.turn_id) == theirs, "a step from an outdated row changes nothing"
    assert turns.note_recovery(db, theirs, replace(theirs, recovery=Recovery.COMPLETED)) is True


CUT, GOOD, OTHER = Outcome.CUT, Outcome.ANSWERED, Outcome.STOPPED


@pytest.mark.parametrize(
    ("history", "count"),
    [
        ([], 0),
        ([("l1", CUT)], 1),
        ([("l1", CUT), ("l2", CUT), ("l3", CUT)], 3),
        ([("l1", CUT), ("l1", CUT), ("l1", CUT)], 1),
        ([("l1", CUT), ("l2", GOOD), ("l2", CUT), ("l3", CUT)], 2),
        ([("l1", CUT), ("l2", CUT), ("l2", GOOD)], 0),
        ([("l1", CUT), ("l2", OTHER), ("l2", CUT)], 2),
        ([("l1", Outcome.UNSTARTED), ("l2", Outcome.UNSTARTED), ("l3", Outcome.UNSTARTED)], 0),
        ([("l1", CUT), ("l2", Outcome.FAILED), ("l3", Outcome.TIMED_OUT), ("l4", CUT)], 2),
        ([("l1", CUT), ("l2", None)], 1),
    ],
)
def test_lives_that_cut_a_session_are_counted_since_its_last_answered_turn(
    db: Db, history: list[tuple[str, Outcome | None]], count: int
) -> None:
    session(db)
    session(db, "s2")
    for number, (life, outcome) in enumerate(history):
        turn(db, run=f"r{number}", life=life, ended=outcome)
        turn(db, "s2", run=f"other {number}", life=f"l{number}", ended=CUT)
    assert turns.lives_cut_in_a_row(db, "s1") == count
    sessions.forgive_cuts(db, "s1")
    assert turns.lives_cut_in_a_row(db, "s1") == 0
    assert turns.lives_cut_in_a_row(db, "s2") == len(history), "other sessions are not forgiven"


def test_cuts_after_forgiveness_are_counted(db: Db) -> None:
    session(db)
    turn(db, run="r1", life="l1", ended=CUT)
    sessions.forgive_cuts(db, "s1")
    turn(db, run="r2", life="l1", ended=CUT)
    turn(db, run="r3", life="l2", ended=CUT)
    assert turns.lives_cut_in_a_row(db, "s1") == 2
    running = turn(db, run="r4", life="l3")
    sessions.forgive_cuts(db, "s1")
    turns.ask_end(db, running, CUT, NOON)()
    assert turns.lives_cut_in_a_row(db, "s1") == 1, "the running turn was cut after the others were forgiven"


any_text = texts(20)
optional = st.none() | any_text


@settings(max_examples=50)
@given(
    run=any_text,
    life=any_text,
    reason=optional | st.just("half a character: \ud83d"),
    note=optional | st.just("\ud83d\ude00"),
    outcome=st.sampled_from(Outcome),
    recovery=st.none() | st.sampled_from(Recovery),
)
def test_any_text_of_a_turn_can_be_stored(
    shared_db: Db,
    run: str,
    life: str,
    reason: str | None,
    note: str | None,
    outcome: Outcome,
    recovery: Recovery | None,
) -> None:
    with undone(shared_db) as db:
        session(db)
        turn_id = turn(db, run=run, life=life)
        assert turns.ask_end(db, turn_id, outcome, NOON, reason)()
        ended = the_turn(db, turn_id)
        assert turns.note_recovery(db, ended, replace(ended, recovery=recovery, recovery_note=note))
        stored = the_turn(db, turn_id)
        assert (stored.run_id, stored.life, stored.outcome, stored.recovery) == (run, life, outcome, recovery)
        assert stored.reason == (reason and reason.replace("\ud83d", "\N{REPLACEMENT CHARACTER}"))
        assert stored.recovery_note == (note and note.replace("\ud83d\ude00", "\N{GRINNING FACE}"))
