"""What is known of a cut run after each look at its journal, and when there is no further look."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hermes_trio.events import (
    Event,
    MessageDelta,
    ReasoningAvailable,
    RunCancelled,
    RunCompleted,
    RunFailed,
    ToolCompleted,
    ToolStarted,
)
from hermes_trio.journal.markers import marker
from hermes_trio.journal.reader import Damage, Reading
from hermes_trio.journal.record import VERSION, Record, encode, terminal_state
from hermes_trio.journal.recovery import (
    JOURNAL_RETRY_GIVEUP_SECONDS,
    JOURNAL_RETRY_MAX_ATTEMPTS,
    Step,
    Told,
    next_step,
    without_a_look,
    worth_a_look,
)
from hermes_trio.state.entry import ResumeReason
from hermes_trio.state.transcript import Message
from hermes_trio.state.turns import Outcome, Recovery, Turn

SINCE = 1_000_000.0
ARRIVING = Turn(
    turn_id=7,
    run_id="run-1",
    session_id="s1",
    life="life-1",
    started_at=SINCE - 60,
    ended_at=SINCE,
    outcome=Outcome.CUT,
    recovery=Recovery.ARRIVING,
    recovery_since=SINCE,
)
CUT = RunFailed("The gateway stopped.", "interrupted")
SAID = MessageDelta("Half an answer")


def journal(*happened: Event) -> Reading:
    """A whole journal in which this happened."""
    records = [
        Record(VERSION, f"run-1:{seq}", seq, "run-1", "s1", item.event, item.event, SINCE + seq,
               (state := terminal_state(item.event, item)) is not None, state, msgspec.to_builtins(item))
        for seq, item in enumerate(happened, start=1)
    ]  # fmt: skip
    return Reading(records, size=sum(len(encode(record)) + 1 for record in records))


def without(reading: Reading, *lost: int) -> Reading:
    """The same journal with damage in the place of these seqs."""
    kept = [record for record in reading.records if record.seq not in lost]
    return replace(reading, records=kept, damage=[Damage(0, 100, "it was hit")] * len(lost))


def texts(rows: tuple[Message, ...] | None) -> list[str]:
    return [row.content for row in rows or ()]


@pytest.mark.parametrize(
    ("happened", "known", "note", "found"),
    [
        ([SAID], Recovery.RECOVERED, None, ["Half an answer"]),
        ([SAID, CUT], Recovery.RECOVERED, None, ["Half an answer"]),
        ([ToolStarted("t", "1")], Recovery.RECOVERED, None, [""]),
        ([ReasoningAvailable("Let me see.")], Recovery.RECOVERED, None, [""]),
        ([ToolCompleted("t", "1"), CUT], Recovery.RECOVERED, None, [""]),
        ([SAID, RunCompleted("Half an answer")], Recovery.COMPLETED, None, ["Half an answer"]),
        ([SAID, RunCancelled()], Recovery.CANCELLED, None, ["Half an answer"]),
        ([SAID, RunFailed("It broke.")], Recovery.FAILED, "It broke.", ["Half an answer"]),
        ([RunFailed()], Recovery.FAILED, None, []),
        ([RunCancelled()], Recovery.CANCELLED, None, []),
        ([CUT], Recovery.NO_OUTPUT, None, []),
        ([MessageDelta("  \n"), CUT], Recovery.NO_OUTPUT, None, []),
    ],
)
def test_what_a_journal_says_of_a_cut_run(
    happened: list[Event], known: Recovery, note: str | None, found: list[str]
) -> None:
    reading = journal(*happened)
    step = next_step(ARRIVING, reading, Told())
    assert (step.turn.recovery, step.turn.recovery_note, texts(step.rows)) == (known, note, found)
    assert step.turn.recovery_bytes == reading.size
    assert step.turn.recovery_attempts == 0, "it was of use"


@pytest.mark.parametrize(
    ("outcome", "says"),
    [
        (RunCompleted("An answer."), None),
        (RunCancelled(), "Cancelled before this turn finished."),
        (RunFailed("The model is gone."), "This turn failed before it finished. The model is gone."),
        (CUT, "recovered from the run journal"),
    ],
)
def test_the_marker_says_what_the_end_of_the_run_proves(outcome: Event, says: str | None) -> None:
    """A finished answer was once called interrupted where nothing else of its session was stored, and
    so was a cancelled one."""
    step = next_step(ARRIVING, journal(MessageDelta("An answer."), outcome), Told())
    row = marker(step.turn)
    assert texts(step.rows) == ["An answer."]
    assert (row is None) == (says is None)
    if row is not None:
        assert says is not None
        assert says in row.content


@pytest.mark.parametrize("recovery", list(Recovery))
@pytest.mark.parametrize("reason", [*ResumeReason, "something new", None])
def test_no_marker_guesses_at_a_cause(recovery: Recovery, reason: str | None) -> None:
    row = marker(replace(ARRIVING, recovery=recovery, reason=reason))
    if recovery is Recovery.COMPLETED:
        assert row is None
        return
    assert row is not None
    assert "restarted" not in row.content or reason == ResumeReason.RESTART
    assert (row.type, row.role, row.turn_id, row.created_at) == ("interrupted", "assistant", 7, int(SINCE))


def test_a_turn_that_was_not_cut_has_no_marker() -> None:
    assert marker(replace(ARRIVING, outcome=Outcome.ANSWERED, recovery=None)) is None


# --- a journal of no use -----------------------------------------------------------------------------

USELESS = {
    "damage alone": Reading([], [Damage(0, 10, "no JSON")], size=10),
    "a torn line alone": Reading(torn=10, size=10),
    "white space": journal(MessageDelta(" ")),
    "an end, and a hole in front of it": without(journal(MessageDelta(" "), CUT), 1),
}


@pytest.mark.parametrize("reading", USELESS.values(), ids=USELESS.keys())
def test_a_journal_of_no_use_is_looked_at_twelve_times(reading: Reading) -> None:
    turn = ARRIVING
    for attempt in range(1, JOURNAL_RETRY_MAX_ATTEMPTS + 1):
        assert without_a_look(turn, SINCE) is None
        assert worth_a_look(turn, reading.size, SINCE)
        assert turn.recovery is Recovery.ARRIVING
        step = next_step(turn, reading, Told())
        assert (step.rows, step.turn.recovery_attempts) == (None, attempt)
        turn = step.turn
    assert (turn.recovery, JOURNAL_RETRY_MAX_ATTEMPTS) == (Recovery.GIVEN_UP, 12)


def test_a_journal_that_becomes_useful_is_taken_whatever_it_has_cost() -> None:
    turn = replace(ARRIVING, recovery_attempts=JOURNAL_RETRY_MAX_ATTEMPTS - 1)
    assert next_step(turn, journal(SAID), Told()).turn.recovery is Recovery.RECOVERED


@pytest.mark.parametrize(
    ("turn", "now", "known"),
    [
        (ARRIVING, SINCE + JOURNAL_RETRY_GIVEUP_SECONDS, None),
        (ARRIVING, SINCE + JOURNAL_RETRY_GIVEUP_SECONDS + 0.001, Recovery.GIVEN_UP),
        (replace(ARRIVING, recovery_attempts=11), SINCE, None),
        (replace(ARRIVING, recovery_attempts=12), SINCE, Recovery.GIVEN_UP),
        (replace(ARRIVING, recovery_attempts=99), SINCE, Recovery.GIVEN_UP),
        (replace(ARRIVING, recovery=Recovery.RECOVERED), SINCE * 2, None),
        (replace(ARRIVING, recovery=None), SINCE * 2, None),
    ],
)
def test_after_a_day_or_twelve_looks_it_is_given_up_without_another_one(
    turn: Turn, now: float, known: Recovery | None
) -> None:
    step = without_a_look(turn, now)
    assert step == (Step(replace(turn, recovery=known)) if known else None)


@pytest.mark.parametrize("since", [SINCE + 1, SINCE + 10**9, None])
def test_a_time_in_the_future_does_not_keep_it_waiting_for_ever(since: float | None) -> None:
    """The clock was set back. The day of patience begins when that is found out."""
    turn = replace(ARRIVING, recovery_since=since)
    step = without_a_look(turn, SINCE)
    assert step == Step(replace(turn, recovery_since=SINCE))
    later = without_a_look(step.turn, SINCE + JOURNAL_RETRY_GIVEUP_SECONDS + 1)
    assert later is not None
    assert later.turn.recovery is Recovery.GIVEN_UP


@pytest.mark.parametrize(
    ("recovery", "seen", "size", "worth"),
    [
        (Recovery.ARRIVING, 0, 0, False),
        (Recovery.ARRIVING, 0, 1, True),
        (Recovery.ARRIVING, 500, 500, True),
        (Recovery.RECOVERED, 500, 500, False),
        (Recovery.RECOVERED, 500, 501, True),
        (Recovery.RECOVERED, 500, 400, True),
        (Recovery.RECOVERED, 500, 0, False),
        (Recovery.NO_OUTPUT, 500, 501, True),
        (Recovery.COMPLETED, 500, 501, True),
        (Recovery.GIVEN_UP, 500, 501, False),
        (None, 0, 500, False),
    ],
)
def test_a_journal_is_read_only_where_it_can_tell_more(
    recovery: Recovery | None, seen: int, size: int, worth: bool
) -> None:
    turn = replace(ARRIVING, recovery=recovery, recovery_bytes=seen)
    assert worth_a_look(turn, size, SINCE) is worth
    assert not worth_a_look(turn, size, SINCE + JOURNAL_RETRY_GIVEUP_SECONDS + 1)


# --- what the transcript tells ------------------------------------------------------------------------


@pytest.mark.parametrize("last", [[], [CUT]])
def test_where_the_transcript_tells_all_of_it_nobody_says_that_there_was_no_output(
    last: list[Event],
) -> None:
    """A tool had run and its rows were stored; the turn was cut before anything else was said."""
    happened = [ToolStarted("t", "1"), ToolCompleted("t", "1"), *last]
    step = next_step(ARRIVING, journal(*happened), Told(place=2, call_ids=frozenset({"1"})))
    assert (step.turn.recovery, step.rows) == (Recovery.RECOVERED, None)


def test_where_the_journal_is_behind_the_transcript_something_may_be_lost() -> None:
    """A power loss took the end of the journal: what was said behind the last row nobody knows."""
    told = Told(place=9)
    for reading in (journal(SAID), journal(SAID, CUT), without(journal(*[SAID] * 10, CUT), 10)):
        step = next_step(ARRIVING, reading, told)
        assert (step.turn.recovery, step.turn.recovery_attempts) == (Recovery.ARRIVING, 1)


# --- one look after another --------------------------------------------------------------------------


def looked(turn: Turn, reading: Reading, told: Told) -> tuple[Turn, Told]:
    """Another look, and what the transcript then has."""
    step = next_step(turn, reading, told)
    return step.turn, told if step.rows is None else replace(told, found=step.rows)


def test_another_look_at_the_same_journal_changes_nothing() -> None:
    reading = journal(SAID, ToolStarted("t", "1"))
    turn, told = looked(ARRIVING, reading, Told())
    assert next_step(turn, reading, told) == Step(turn)


def test_what_comes_after_a_recovery_is_found_too() -> None:
    """Once recovered a run was never looked at again, and what it still wrote was lost for good."""
    events = [
        SAID,
        MessageDelta(" and"),
        ToolStarted("t", "1"),
        ToolCompleted("t", "1"),
        MessageDelta("more."),
    ]
    turn, told = looked(ARRIVING, journal(*events[:1]), Told())
    assert texts(told.found) == ["Half an answer"]
    turn, told = looked(turn, journal(*events[:3]), told)
    assert texts(told.found) == ["Half an answer and"]
    turn, told = looked(turn, journal(*events), told)
    assert texts(told.found) == ["Half an answer and", "more."]
    assert [card.done for card in told.found[0].cards] == [True]
    turn, told = looked(turn, journal(*events, RunCompleted()), told)
    assert turn.recovery is Recovery.COMPLETED


def test_what_was_found_and_proved_is_not_lost_with_the_journal() -> None:
    events = [SAID, MessageDelta(" and"), ToolStarted("t", "1"), MessageDelta("more."), RunCompleted()]
    turn, told = looked(ARRIVING, journal(*events), Told())
    for damaged in (
        Reading(),
        journal(*events[:1]),
        without(journal(*events), 2, 5),
        without(journal(*events), 3, 4, 5),
        without(journal(*events), 1, 2, 3, 4, 5),
    ):
        step = next_step(turn, damaged, told)
        assert (step.turn.recovery, step.rows) == (Recovery.COMPLETED, None)


def test_a_damaged_journal_that_grows_adds_to_what_was_found() -> None:
    events = [SAID, MessageDelta(" and"), ToolStarted("t", "1")]
    turn, told = looked(ARRIVING, journal(*events), Told())
    grown = [*events, ToolCompleted("t", "1", error=True), MessageDelta("More."), ToolStarted("u", "2")]
    turn, told = looked(turn, without(journal(*grown), 2), told)
    assert texts(told.found) == ["Half an answer and", "More."]
    assert [[(card.name, card.done) for card in row.cards] for row in told.found] == [
        [("t", True)],
        [("u", False)],
    ]
    assert next_step(turn, without(journal(*grown), 2), told) == Step(turn)
    longer = without(journal(*grown, ToolCompleted("u", "2"), CUT), 1, 2, 3)
    turn, told = looked(turn, longer, told)
    assert texts(told.found) == ["Half an answer and", "More."]
    assert [card.done for row in told.found for card in row.cards] == [True, True]


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
@settings(max_examples=500, deadline=None, derandomize=True, database=None)
def test_no_look_takes_back_what_an_earlier_one_found(
    happened: list[Event], looks: list[tuple[int, set[int]]], place: int
) -> None:
    """Whatever of the journal is there, and whatever of it is damaged, at each look."""
    turn, told = ARRIVING, Told(place=place)
    for length, lost in looks:
        before = told.found
        turn, told = looked(turn, without(journal(*happened[:length]), *lost), told)
        assert len(told.found) >= len(before)
        for old, new in zip(before, told.found, strict=False):
            assert new.content.startswith(old.content)
            assert (new.reasoning or "").startswith(old.reasoning or "")
            assert new.place >= old.place
            open_cards = [card.id for card in old.cards if not card.done]
            assert [card for card in new.cards[: len(old.cards)] if card.id not in open_cards] == [
                card for card in old.cards if card.id not in open_cards
            ]
        places = [row.place for row in told.found]
        assert places == sorted(set(places))
        assert all(at > place for at in places)


@given(happened=happenings, lengths=st.lists(st.integers(0, 10), max_size=5))
@settings(max_examples=300, deadline=None, derandomize=True, database=None)
def test_in_however_many_looks_the_same_is_found(happened: list[Event], lengths: list[int]) -> None:
    at_once = next_step(ARRIVING, journal(*happened), Told()).rows or ()
    turn, told = ARRIVING, Told()
    for length in [*sorted(lengths), 10]:
        turn, told = looked(turn, journal(*happened[:length]), told)
    assert told.found == at_once
