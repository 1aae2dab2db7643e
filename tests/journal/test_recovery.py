"""The recovery state of a cut run after each reading of its journal, and the end of the readings."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hermes_trio.base.events import (
    Event,
    MessageDelta,
    ReasoningAvailable,
    RunCancelled,
    RunCompleted,
    RunFailed,
    ToolCompleted,
    ToolStarted,
)
from hermes_trio.journal.cut_markers import marker
from hermes_trio.journal.reader import Damage, Reading
from hermes_trio.journal.recovery import (
    JOURNAL_RETRY_GIVEUP_SECONDS,
    JOURNAL_RETRY_MAX_ATTEMPTS,
    AlreadyStored,
    RecoveryStep,
    is_worth_reading,
    next_step,
    step_without_reading,
)
from hermes_trio.state.tables.session_entry import ResumeReason
from hermes_trio.state.tables.transcript import TranscriptRow
from hermes_trio.state.tables.turns import Outcome, Recovery, TurnRow
from tests.journal.seams import ARRIVING, CUT, SAID, SINCE, journal, without


def texts(rows: tuple[TranscriptRow, ...] | None) -> list[str]:
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
def test_next_step_derives_the_recovery_from_the_journal(
    happened: list[Event], known: Recovery, note: str | None, found: list[str]
) -> None:
    reading = journal(*happened)
    step = next_step(ARRIVING, reading, AlreadyStored())
    assert (step.turn.recovery, step.turn.recovery_note, texts(step.rows)) == (known, note, found)
    assert step.turn.recovery_bytes == reading.size
    assert step.turn.recovery_attempts == 0, "a useful reading is not counted"


@pytest.mark.parametrize(
    ("outcome", "says"),
    [
        (RunCompleted("An answer."), None),
        (RunCancelled(), "Cancelled before this turn finished."),
        (RunFailed("The model is gone."), "This turn failed before it finished. The model is gone."),
        (CUT, "recovered from the run journal"),
    ],
)
def test_the_marker_states_what_the_terminal_event_proves(outcome: Event, says: str | None) -> None:
    """Regression: a finished answer, and a cancelled one, was called interrupted if nothing else of its
    session was stored."""
    step = next_step(ARRIVING, journal(MessageDelta("An answer."), outcome), AlreadyStored())
    row = marker(step.turn)
    assert texts(step.rows) == ["An answer."]
    assert (row is None) == (says is None)
    if row is not None:
        assert says is not None
        assert says in row.content


@pytest.mark.parametrize("recovery", list(Recovery))
@pytest.mark.parametrize("reason", [*ResumeReason, "something new", None])
def test_a_marker_names_no_unknown_cause(recovery: Recovery, reason: str | None) -> None:
    row = marker(replace(ARRIVING, recovery=recovery, reason=reason))
    if recovery is Recovery.COMPLETED:
        assert row is None
        return
    assert row is not None
    assert "restarted" not in row.content or reason == ResumeReason.RESTART
    assert (row.type, row.role, row.turn_id, row.created_at) == ("interrupted", "assistant", 7, int(SINCE))


def test_a_turn_that_was_not_cut_has_no_marker() -> None:
    assert marker(replace(ARRIVING, outcome=Outcome.ANSWERED, recovery=None)) is None


# --- useless journals ---------------------------------------------------------------------------------

USELESS = {
    "damage alone": Reading([], [Damage(0, 10, "no JSON")], size=10),
    "a torn line alone": Reading(torn=10, size=10),
    "white space": journal(MessageDelta(" ")),
    "an end, and a hole in front of it": without(journal(MessageDelta(" "), CUT), 1),
}


@pytest.mark.parametrize("reading", USELESS.values(), ids=USELESS.keys())
def test_a_useless_journal_is_read_twelve_times(reading: Reading) -> None:
    turn = ARRIVING
    for attempt in range(1, JOURNAL_RETRY_MAX_ATTEMPTS + 1):
        assert step_without_reading(turn, SINCE) is None
        assert is_worth_reading(turn, reading.size, SINCE)
        assert turn.recovery is Recovery.ARRIVING
        step = next_step(turn, reading, AlreadyStored())
        assert (step.rows, step.turn.recovery_attempts) == (None, attempt)
        turn = step.turn
    assert (turn.recovery, JOURNAL_RETRY_MAX_ATTEMPTS) == (Recovery.GIVEN_UP, 12)


def test_a_journal_that_becomes_useful_is_recovered_after_any_attempts() -> None:
    turn = replace(ARRIVING, recovery_attempts=JOURNAL_RETRY_MAX_ATTEMPTS - 1)
    assert next_step(turn, journal(SAID), AlreadyStored()).turn.recovery is Recovery.RECOVERED


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
def test_a_recovery_is_given_up_after_a_day_or_twelve_readings(
    turn: TurnRow, now: float, known: Recovery | None
) -> None:
    step = step_without_reading(turn, now)
    assert step == (RecoveryStep(replace(turn, recovery=known)) if known else None)


@pytest.mark.parametrize("since", [SINCE + 1, SINCE + 10**9, None])
def test_a_recovery_start_in_the_future_is_reset_to_now(since: float | None) -> None:
    """The clock was set back. The day of waiting starts when this is noticed."""
    turn = replace(ARRIVING, recovery_since=since)
    step = step_without_reading(turn, SINCE)
    assert step == RecoveryStep(replace(turn, recovery_since=SINCE))
    later = step_without_reading(step.turn, SINCE + JOURNAL_RETRY_GIVEUP_SECONDS + 1)
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
def test_a_journal_is_read_only_if_it_may_contain_more(
    recovery: Recovery | None, seen: int, size: int, worth: bool
) -> None:
    turn = replace(ARRIVING, recovery=recovery, recovery_bytes=seen)
    assert is_worth_reading(turn, size, SINCE) is worth
    assert not is_worth_reading(turn, size, SINCE + JOURNAL_RETRY_GIVEUP_SECONDS + 1)


# --- output that is stored already --------------------------------------------------------------------


@pytest.mark.parametrize("last", [[], [CUT]])
def test_a_completely_stored_run_is_recovered_and_not_without_output(
    last: list[Event],
) -> None:
    """A tool ran and its rows were stored; the turn was cut before any other output."""
    happened = [ToolStarted("t", "1"), ToolCompleted("t", "1"), *last]
    step = next_step(ARRIVING, journal(*happened), AlreadyStored(place=2, call_ids=frozenset({"1"})))
    assert (step.turn.recovery, step.rows) == (Recovery.RECOVERED, None)


def test_a_journal_that_ends_before_the_stored_place_is_not_complete() -> None:
    """A power loss has truncated the journal: the output after the last stored row is unknown."""
    stored = AlreadyStored(place=9)
    for reading in (journal(SAID), journal(SAID, CUT), without(journal(*[SAID] * 10, CUT), 10)):
        step = next_step(ARRIVING, reading, stored)
        assert (step.turn.recovery, step.turn.recovery_attempts) == (Recovery.ARRIVING, 1)
