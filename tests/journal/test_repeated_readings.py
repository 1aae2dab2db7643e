"""Repeated readings of a journal: recovered rows stay, whatever happens to the journal."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hermes_trio.base.events import (
    Event,
    MessageDelta,
    ReasoningAvailable,
    RunCancelled,
    RunCompleted,
    ToolCompleted,
    ToolStarted,
)
from hermes_trio.journal.reader import Reading
from hermes_trio.journal.recovery import AlreadyStored, RecoveryStep, next_step
from hermes_trio.state.tables.transcript import TranscriptRow
from hermes_trio.state.tables.turns import Recovery, TurnRow
from tests.journal.seams import ARRIVING, CUT, SAID, journal, without

PROVEN = [Recovery.COMPLETED, Recovery.CANCELLED, Recovery.FAILED]


def texts(rows: tuple[TranscriptRow, ...]) -> list[str]:
    return [row.content for row in rows]


def looked(turn: TurnRow, reading: Reading, stored: AlreadyStored) -> tuple[TurnRow, AlreadyStored]:
    """Read the journal again; return the turn and the stored part after that."""
    step = next_step(turn, reading, stored)
    return step.turn, stored if step.rows is None else replace(stored, found=step.rows)


def test_reading_the_same_journal_again_changes_nothing() -> None:
    reading = journal(SAID, ToolStarted("t", "1"))
    turn, stored = looked(ARRIVING, reading, AlreadyStored())
    assert next_step(turn, reading, stored) == RecoveryStep(turn)


def test_output_written_after_a_recovery_is_recovered_too() -> None:
    """Regression: a recovered run was not read again, and its later output was lost."""
    events = [
        SAID,
        MessageDelta(" and"),
        ToolStarted("t", "1"),
        ToolCompleted("t", "1"),
        MessageDelta("more."),
    ]
    turn, stored = looked(ARRIVING, journal(*events[:1]), AlreadyStored())
    assert texts(stored.found) == ["Half an answer"]
    turn, stored = looked(turn, journal(*events[:3]), stored)
    assert texts(stored.found) == ["Half an answer and"]
    turn, stored = looked(turn, journal(*events), stored)
    assert texts(stored.found) == ["Half an answer and", "more."]
    assert [card.done for card in stored.found[0].cards] == [True]
    turn, stored = looked(turn, journal(*events, RunCompleted()), stored)
    assert turn.recovery is Recovery.COMPLETED


def test_recovered_rows_and_proven_ends_survive_damage_of_the_journal() -> None:
    events = [SAID, MessageDelta(" and"), ToolStarted("t", "1"), MessageDelta("more."), RunCompleted()]
    turn, stored = looked(ARRIVING, journal(*events), AlreadyStored())
    for damaged in (
        Reading(),
        journal(*events[:1]),
        without(journal(*events), 2, 5),
        without(journal(*events), 3, 4, 5),
        without(journal(*events), 1, 2, 3, 4, 5),
    ):
        step = next_step(turn, damaged, stored)
        assert (step.turn.recovery, step.rows) == (Recovery.COMPLETED, None)


def test_output_after_a_proven_and_now_damaged_end_is_recovered() -> None:
    events = [SAID, RunCancelled(), ToolStarted("t", "1")]
    turn, stored = looked(ARRIVING, journal(*events[:2]), AlreadyStored())
    turn, stored = looked(turn, without(journal(*events), 2), stored)
    assert turn.recovery is Recovery.CANCELLED
    assert [card.name for card in stored.found[0].cards] == ["t"]


def test_a_damaged_journal_that_grows_adds_rows() -> None:
    events = [SAID, MessageDelta(" and"), ToolStarted("t", "1")]
    turn, stored = looked(ARRIVING, journal(*events), AlreadyStored())
    grown = [*events, ToolCompleted("t", "1", error=True), MessageDelta("More."), ToolStarted("u", "2")]
    turn, stored = looked(turn, without(journal(*grown), 2), stored)
    assert texts(stored.found) == ["Half an answer and", "More."]
    assert [[(card.name, card.done) for card in row.cards] for row in stored.found] == [
        [("t", True)],
        [("u", False)],
    ]
    assert next_step(turn, without(journal(*grown), 2), stored) == RecoveryStep(turn)
    longer = without(journal(*grown, ToolCompleted("u", "2"), CUT), 1, 2, 3)
    turn, stored = looked(turn, longer, stored)
    assert texts(stored.found) == ["Half an answer and", "More."]
    assert [card.done for row in stored.found for card in row.cards] == [True, True]


def test_a_call_recovered_as_ended_stays_ended() -> None:
    events = [SAID, ToolStarted("t", "1"), ToolCompleted("t", "1")]
    turn, stored = looked(ARRIVING, journal(*events), AlreadyStored())
    turn, stored = looked(turn, without(journal(*events, ToolStarted("u", "2")), 3), stored)
    assert [(card.id, card.done) for row in stored.found for card in row.cards] == [("1", True), ("2", False)]


def test_a_call_recovered_as_begun_stays_begun() -> None:
    events = [SAID, ToolStarted("t", "1"), ToolStarted("u", "2")]
    turn, stored = looked(ARRIVING, journal(*events), AlreadyStored())
    turn, stored = looked(turn, without(journal(*events, ToolCompleted("t", "1")), 3), stored)
    assert [(card.id, card.done) for row in stored.found for card in row.cards] == [("1", True), ("2", False)]


@pytest.mark.parametrize("known", [Recovery.NO_OUTPUT, Recovery.RECOVERED, *PROVEN])
def test_a_recovery_state_survives_a_journal_that_became_useless(known: Recovery) -> None:
    """The state does not return to *arriving*, and no reading is counted."""
    turn = replace(ARRIVING, recovery=known, recovery_bytes=500, recovery_note="It broke.")
    useless = Reading([], journal().damage, size=300)
    for reading in (useless, without(journal(CUT), 1), journal(CUT)):
        step = next_step(turn, reading, AlreadyStored())
        assert step == RecoveryStep(replace(turn, recovery_bytes=reading.size)), "the note is kept too"


pieces = st.text(alphabet="ab ", min_size=1, max_size=3)
happenings = st.lists(
    st.builds(MessageDelta, pieces)
    | st.builds(ReasoningAvailable, pieces)
    | st.builds(ToolStarted, st.just("t"), st.sampled_from(["1", "2"]))
    | st.builds(ToolCompleted, st.just("t"), st.sampled_from(["1", "2"])),
    min_size=1,
    max_size=10,
)
looks = st.lists(st.tuples(st.integers(0, 10), st.sets(st.integers(1, 10), max_size=3)), max_size=5)


@given(happened=happenings, looks=looks, place=st.integers(0, 3))
@settings(max_examples=500)
def test_no_reading_takes_back_rows_of_an_earlier_one(
    happened: list[Event], looks: list[tuple[int, set[int]]], place: int
) -> None:
    """With any length and any damage of the journal at each reading."""
    turn, stored = ARRIVING, AlreadyStored(place=place)
    for length, lost in looks:
        before = stored.found
        turn, stored = looked(turn, without(journal(*happened[:length]), *lost), stored)
        assert len(stored.found) >= len(before)
        for old, new in zip(before, stored.found, strict=False):
            assert new.content.startswith(old.content)
            assert (new.reasoning or "").startswith(old.reasoning or "")
            assert new.place >= old.place
            open_cards = [card.id for card in old.cards if not card.done]
            assert [card for card in new.cards[: len(old.cards)] if card.id not in open_cards] == [
                card for card in old.cards if card.id not in open_cards
            ]
        places = [row.place for row in stored.found]
        assert places == sorted(set(places))
        assert all(at > place for at in places)


@given(happened=happenings, lengths=st.lists(st.integers(0, 10), max_size=5))
@settings(max_examples=300)
def test_any_number_of_readings_recovers_the_same_rows(happened: list[Event], lengths: list[int]) -> None:
    at_once = next_step(ARRIVING, journal(*happened), AlreadyStored()).rows or ()
    turn, stored = ARRIVING, AlreadyStored()
    for length in [*sorted(lengths), 10]:
        turn, stored = looked(turn, journal(*happened[:length]), stored)
    assert stored.found == at_once
