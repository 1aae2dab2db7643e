"""The end of a turn: the effects of the table, in one transaction, and only the first end counts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest

from hermes_trio.state.db.engine import Db
from hermes_trio.state.rules import settle
from hermes_trio.state.rules.settle import Settlement
from hermes_trio.state.tables import approvals, inbox, outbox, transcript, turns
from hermes_trio.state.tables.approvals import ApprovalRow
from hermes_trio.state.tables.session_entry import Mark, Usage
from hermes_trio.state.tables.transcript import TranscriptRow
from hermes_trio.state.tables.turns import Outcome, Recovery
from tests.conftest import Home
from tests.state.rows import (
    NOON,
    everything,
    received,
    scans,
    session,
    state_of,
    the_session,
    the_turn,
    to_chat,
    turn,
)
from tests.state.seams import refused

LATER = NOON + 60

# The turn has messages; an older cut turn has a message of its own while the session has the mark.
TABLE = """
outcome     session was  its messages  of the older  mark after
----------  -----------  ------------  ------------  --------------
answered    unmarked     done          -             none
answered    marked       done          done          none
answered    suspended    done          done          suspended
answered    ended        done          done          none
stopped     unmarked     done          -             none
stopped     marked       done          done          none
stopped     suspended    done          done          suspended
stopped     ended        done          done          none
superseded  unmarked     done          -             none
superseded  marked       done          done          none
superseded  suspended    done          done          suspended
superseded  ended        done          done          none
reset       unmarked     done          -             none
reset       marked       done          done          none
reset       suspended    done          done          suspended
reset       ended        done          done          none
timed_out   unmarked     done          -             none
timed_out   marked       done          done          none
timed_out   suspended    done          done          suspended
timed_out   ended        done          done          none
failed      unmarked     done          -             none
failed      marked       done          done          none
failed      suspended    done          done          suspended
failed      ended        done          done          none
cut         unmarked     of_turn       -             fresh
cut         marked       of_turn       of_turn       fresh
cut         suspended    done          done          suspended
cut         ended        done          done          none
unstarted   unmarked     pending       -             none
unstarted   marked       pending       of_turn       older
unstarted   suspended    pending       done          suspended
unstarted   ended        pending       done          none
"""
ROWS = [tuple(line.split()) for line in TABLE.splitlines()[3:]]
MARKS = {
    "none": None,
    "fresh": Mark("resume_pending", "why", LATER),
    "older": Mark("resume_pending", "older", NOON),
    "suspended": Mark("suspended", None, NOON + 1),
}


def test_the_table_of_end_effects_is_complete() -> None:
    before = ("unmarked", "marked", "suspended", "ended")
    assert [row[:2] for row in ROWS] == [(outcome, state) for outcome in Outcome for state in before]


@dataclass
class Scene:
    """A session with a running turn, and, if it is or was marked, an older cut turn."""

    turn_id: int
    own: list[int]
    older: int | None


def scene(db: Db, was: str) -> Scene:
    session(db)
    older = None
    if was != "unmarked":
        older = received(db, "older")
        cut = turn(db, run="older")
        inbox.join_turn(db, cut, [older])
        settle.settle(db, cut, Settlement(Outcome.CUT, "older"), NOON)
        assert state_of(db, older) == ("of_turn", cut)
    running = turn(db, run="running")
    own = [received(db, "one"), received(db, "two")]
    inbox.join_turn(db, running, own)
    approvals.ask(db, ApprovalRow("asked", running, "approval", "{}", NOON))
    if was == "suspended":
        settle.suspend(db, "s1", NOON + 1)
    if was == "ended":
        assert settle.end_session(db, "s1", "session_reset", NOON + 1)
    return Scene(running, own, older)


def full_settlement(outcome: Outcome, turn_id: int) -> Settlement:
    """Return a settlement with all optional parts."""
    return Settlement(
        outcome,
        "why",
        rows=(TranscriptRow("assistant", "The answer.", LATER, turn_id, place=3, finish="stop"),),
        owed=(to_chat("answer", session_id="s1", turn_id=turn_id), to_chat("stream closed")),
        usage=Usage(10, 5, cost_usd=0.5),
    )


@pytest.mark.parametrize(
    ("outcome", "was", "own", "older", "mark"), ROWS, ids=[f"{r[0]}-{r[1]}" for r in ROWS]
)
def test_each_outcome_has_the_effects_of_the_table(
    db: Db, outcome: Outcome, was: str, own: str, older: str, mark: str
) -> None:
    scenery = scene(db, was)
    before = the_session(db)
    settlement = full_settlement(Outcome(outcome), scenery.turn_id)
    end = settle.settle(db, scenery.turn_id, settlement, LATER)
    assert end is not None
    assert (end.outcome, [request.approval_id for request in end.closed]) == (outcome, ["asked"])

    kept_turn = None if own == "pending" else scenery.turn_id
    assert [state_of(db, row) for row in scenery.own] == [(own, kept_turn)] * 2
    if scenery.older is not None:
        assert state_of(db, scenery.older)[0] == older
    after = the_session(db)
    assert after == replace(before, mark=MARKS[mark], updated_at=LATER, usage=Usage(10, 5, cost_usd=0.5))
    ended = the_turn(db, scenery.turn_id)
    assert (ended.outcome, ended.ended_at, ended.reason) == (outcome, LATER, "why")
    assert ended.recovery == (Recovery.ARRIVING if outcome == "cut" else None)
    asked = approvals.get(db, "asked")
    assert asked is not None
    assert (asked.answer, asked.closed_at) == (None, LATER), "the request is closed without an answer"
    assert [row.content for row in transcript.load(db, "s1")] == ["The answer."]
    owed = outbox.undelivered(db, "telegram", "main")
    assert [(row.owed.delivery_key, row.created_at) for row in owed] == [
        ("answer", LATER),
        ("stream closed", LATER),
    ]


@pytest.mark.parametrize("was", ["unmarked", "marked", "suspended", "ended"])
@pytest.mark.parametrize("second", Outcome)
@pytest.mark.parametrize("first", [Outcome.ANSWERED, Outcome.CUT, Outcome.UNSTARTED])
def test_a_second_end_of_a_turn_changes_nothing(db: Db, first: Outcome, second: Outcome, was: str) -> None:
    turn_id = scene(db, was).turn_id
    end = settle.settle(db, turn_id, Settlement(first, "why"), LATER)
    assert end is not None
    assert end.outcome == first
    before = everything(db)
    assert settle.settle(db, turn_id, full_settlement(second, turn_id), LATER + 1) is None
    assert everything(db) == before


class Noting:
    """A database that notes the statements."""

    def __init__(self, db: Db) -> None:
        self._db = db
        self.statements: list[tuple[str, Sequence[Any]]] = []

    def execute(self, statement: str, parameters: Sequence[Any] = (), /) -> Any:
        self.statements.append((statement, parameters))
        return self._db.execute(statement, parameters)


@pytest.mark.sqlite
@pytest.mark.parametrize("outcome", Outcome)
def test_the_end_of_a_turn_reads_no_table_from_end_to_end(db: Db, outcome: Outcome) -> None:
    turn_id = scene(db, "marked").turn_id
    noting = Noting(db)
    settle.settle(noting, turn_id, full_settlement(outcome, turn_id), LATER)
    assert len(noting.statements) > 5
    assert [scans(db, *one) for one in noting.statements] == [[]] * len(noting.statements)


def test_settling_an_unknown_turn_stores_nothing(db: Db) -> None:
    session(db)
    before = everything(db)
    assert settle.settle(db, 17, full_settlement(Outcome.ANSWERED, 17), LATER) is None
    assert settle.settle(db, 17, Settlement(Outcome.UNSTARTED, "crash"), LATER) is None
    assert everything(db) == before


BAD_PARTS = {
    "a row": {"rows": (TranscriptRow("robot", "Hm.", LATER),)},  # type: ignore[arg-type]
    "an owed message": {"owed": (to_chat("answer"), to_chat("another", turn_id=999))},
    "the usage": {"usage": Usage(10, None)},  # type: ignore[arg-type]
}


@pytest.mark.parametrize("bad", BAD_PARTS.values(), ids=BAD_PARTS)
@pytest.mark.parametrize("outcome", Outcome)
async def test_the_end_of_a_turn_is_stored_completely_or_not_at_all(
    home: Home, outcome: Outcome, bad: dict[str, object]
) -> None:
    turn_id = (await home.database.write(scene, "marked")).turn_id
    before = await home.database.read(everything)
    settlement = replace(full_settlement(outcome, turn_id), **bad)  # type: ignore[arg-type]
    with refused():
        await home.database.write(settle.settle, turn_id, settlement, LATER)
    assert await home.database.read(everything) == before


@pytest.mark.parametrize("outcome", Outcome)
def test_a_stopped_turn_that_is_cut_ends_as_stopped(db: Db, outcome: Outcome) -> None:
    turn_id = scene(db, "unmarked").turn_id
    turns.note_stop(db, "s1", NOON)
    cut = outcome in (Outcome.CUT, Outcome.UNSTARTED)
    ended = settle.settle(db, turn_id, Settlement(outcome, "why"), LATER)
    assert ended is not None
    assert ended.outcome == (Outcome.STOPPED if cut else outcome)
    assert the_session(db).mark is None


def test_a_stop_has_no_effect_on_later_turns(db: Db) -> None:
    settle.settle(db, scene(db, "unmarked").turn_id, Settlement(Outcome.ANSWERED), NOON)
    turns.note_stop(db, "s1", NOON)
    later = turns.begin(db, run_id="later", session_id="s1", life="life", at=LATER)
    ended = settle.settle(db, later, Settlement(Outcome.CUT, "why"), LATER)
    assert ended is not None
    assert ended.outcome is Outcome.CUT
