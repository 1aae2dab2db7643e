"""How a turn ends: one table, one transaction, and the first end is the only one."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass, replace

import pytest

from hermes_trio.state import approvals, endings, inbox, outbox, sessions, settle, transcript, turns
from hermes_trio.state.approvals import Request
from hermes_trio.state.endings import EndingRow
from hermes_trio.state.entry import Mark, Usage
from hermes_trio.state.settle import Settlement
from hermes_trio.state.transcript import Message
from hermes_trio.state.turns import Outcome, Recovery, Turn
from tests.conftest import Home
from tests.state.rows import (
    NOON,
    everything,
    received,
    session,
    state_of,
    the_session,
    the_turn,
    to_chat,
    turn,
)

LATER = NOON + 60

# What a turn answers is with it; an older cut turn holds a message of its own, for as long as its mark.
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


def test_the_table_is_whole() -> None:
    before = ("unmarked", "marked", "suspended", "ended")
    assert [row[:2] for row in ROWS] == [(outcome, state) for outcome in Outcome for state in before]


@dataclass
class Scene:
    """A session with a turn that runs, and, if it is marked or was, a cut one before it."""

    turn_id: int
    own: list[int]
    older: int | None


def scene(db: sqlite3.Connection, was: str) -> Scene:
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
    approvals.ask(db, Request("asked", running, "approval", "{}", NOON))
    if was == "suspended":
        settle.suspend(db, "s1", NOON + 1)
    if was == "ended":
        assert settle.end_session(db, "s1", "session_reset", NOON + 1)
    return Scene(running, own, older)


def full_settlement(outcome: Outcome, turn_id: int) -> Settlement:
    """A settlement with everything in it that can be."""
    return Settlement(
        outcome,
        "why",
        rows=(Message("assistant", "The answer.", LATER, turn_id, place=3, finish="stop"),),
        owed=(to_chat("answer", session_id="s1", turn_id=turn_id), to_chat("stream closed")),
        usage=Usage(10, 5, cost_usd=0.5),
    )


@pytest.mark.parametrize(
    ("outcome", "was", "own", "older", "mark"), ROWS, ids=[f"{r[0]}-{r[1]}" for r in ROWS]
)
def test_what_the_end_of_a_turn_does(
    db: sqlite3.Connection, outcome: Outcome, was: str, own: str, older: str, mark: str
) -> None:
    scenery = scene(db, was)
    before = the_session(db)
    assert (
        settle.settle(db, scenery.turn_id, full_settlement(Outcome(outcome), scenery.turn_id), LATER) is True
    )

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
    assert (asked.answer, asked.closed_at) == (None, LATER), "a late answer is told so"
    assert [row.content for row in transcript.load(db, "s1")] == ["The answer."]
    owed = outbox.undelivered(db, "telegram", "main")
    assert [(row.owed.delivery_key, row.created_at) for row in owed] == [
        ("answer", LATER),
        ("stream closed", LATER),
    ]


@pytest.mark.parametrize("was", ["unmarked", "marked", "suspended", "ended"])
@pytest.mark.parametrize("second", Outcome)
@pytest.mark.parametrize("first", [Outcome.ANSWERED, Outcome.CUT, Outcome.UNSTARTED])
def test_a_second_end_changes_nothing_at_all(
    db: sqlite3.Connection, first: Outcome, second: Outcome, was: str
) -> None:
    turn_id = scene(db, was).turn_id
    assert settle.settle(db, turn_id, Settlement(first, "why"), LATER) is True
    before = everything(db)
    assert settle.settle(db, turn_id, full_settlement(second, turn_id), LATER + 1) is False
    assert everything(db) == before


def test_a_turn_that_never_was_has_no_end(db: sqlite3.Connection) -> None:
    session(db)
    before = everything(db)
    assert settle.settle(db, 17, full_settlement(Outcome.ANSWERED, 17), LATER) is False
    assert everything(db) == before


BAD_PARTS = {
    "a row": {"rows": (Message("robot", "Hm.", LATER),)},  # type: ignore[arg-type]
    "what is owed": {"owed": (to_chat("answer"), to_chat("another", turn_id=999))},
    "what was used": {"usage": Usage(10, None)},  # type: ignore[arg-type]
}


@pytest.mark.parametrize("bad", BAD_PARTS.values(), ids=BAD_PARTS)
@pytest.mark.parametrize("outcome", Outcome)
async def test_all_of_an_end_is_stored_or_nothing_of_it(
    home: Home, outcome: Outcome, bad: dict[str, object]
) -> None:
    turn_id = (await home.database.write(scene, "marked")).turn_id
    before = await home.database.read(everything)
    settlement = replace(full_settlement(outcome, turn_id), **bad)  # type: ignore[arg-type]
    with pytest.raises(sqlite3.IntegrityError):
        await home.database.write(settle.settle, turn_id, settlement, LATER)
    assert await home.database.read(everything) == before


def ending(life: str, reason: str) -> EndingRow:
    return EndingRow(life, "restart", "SIGUSR1", 0.0, reason, "stopped", NOON)


def test_the_next_life_ends_what_the_last_one_left_by_what_that_had_decided(db: sqlite3.Connection) -> None:
    endings.record(db, ending("restarted", "restart_timeout"))
    endings.record(db, ending("stopped", "shutdown_timeout"))
    lives = ["restarted", "stopped", "crashed"]
    rows = {}
    for number, life in enumerate(lives):
        session(db, f"s{number}", used_at=NOON + number)
        turn_id = turn(db, f"s{number}", run=f"r{number}", life=life)
        rows[turn_id] = received(db, f"m{number}", key=f"key of s{number}")
        inbox.join_turn(db, turn_id, [rows[turn_id]])
        approvals.ask(db, Request(f"a{number}", turn_id, "question", "{}", NOON))
    session(db, "idle")
    order = [entry.session_id for entry in sessions.newest(db, limit=9)]

    found = settle.settle_cut_turns(db, LATER)
    assert [(cut.run_id, cut.life, cut.ended_at) for cut in found] == [
        (f"r{number}", life, None) for number, life in enumerate(lives)
    ], "as they were found"
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
    assert the_session(db, "idle").mark is None, "exactly those, whoever else was in use"
    assert [entry.session_id for entry in sessions.newest(db, limit=9)] == order, "nobody used them"
    assert [the_session(db, f"s{number}").updated_at for number in range(3)] == [NOON, NOON + 1, NOON + 2]
    before = everything(db)
    assert settle.settle_cut_turns(db, LATER + 1) == []
    assert everything(db) == before


def test_a_turn_that_had_asked_nothing_was_not_interrupted(db: sqlite3.Connection) -> None:
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


def test_a_suspended_or_ended_session_is_not_marked_and_holds_no_message_back(db: sqlite3.Connection) -> None:
    held = {}
    for name in ("suspended", "ended"):
        session(db, name)
        turn_id = turn(db, name, run=name)
        held[name] = received(db, name)
        inbox.join_turn(db, turn_id, [held[name]])
    settle.suspend(db, "suspended", NOON)
    settle.end_session(db, "ended", "session_reset", NOON)
    assert [state_of(db, row)[0] for row in held.values()] == ["of_turn", "of_turn"], "their turns still run"
    settle.settle_cut_turns(db, LATER)
    assert [state_of(db, row)[0] for row in held.values()] == ["done", "done"]
    assert the_session(db, "suspended").suspended
    assert the_session(db, "ended").mark is None


def cut_twice(db: sqlite3.Connection) -> tuple[list[int], Turn]:
    """A marked session whose two cut turns hold a message each; and the second of them."""
    session(db)
    rows = []
    for number in (1, 2):
        rows.append(received(db, f"m{number}"))
        turn_id = turn(db, run=f"r{number}", life=f"life-{number}")
        inbox.join_turn(db, turn_id, rows[-1:])
        settle.settle(db, turn_id, Settlement(Outcome.CUT, "crash"), NOON)
    return rows, the_turn(db, turn_id)


@pytest.mark.parametrize("way", ["cleared", "suspended", "ended", "answered", "stopped"])
def test_the_messages_of_cut_turns_close_with_the_mark_however_it_goes(
    db: sqlite3.Connection, way: str
) -> None:
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
    assert inbox.keys_with_pending(db) == [], "nothing starts a turn at a later boot"


def test_only_a_resume_mark_can_be_cleared(db: sqlite3.Connection) -> None:
    session(db)
    assert settle.clear_mark(db, "s1", LATER) is False
    settle.suspend(db, "s1", LATER, "stuck")
    assert settle.clear_mark(db, "s1", LATER) is False
    assert the_session(db).mark == Mark("suspended", "stuck", LATER)
    assert settle.clear_mark(db, "nowhere", LATER) is False


def test_a_session_ends_once(db: sqlite3.Connection) -> None:
    rows, _ = cut_twice(db)
    assert settle.end_session(db, "s1", "session_reset", LATER) is True
    before = everything(db)
    assert settle.end_session(db, "s1", "idle", LATER + 1) is False
    settle.suspend(db, "s1", LATER + 1)
    assert everything(db) == before, "what has ended is not suspended either"
    assert [state_of(db, row)[0] for row in rows] == ["done", "done"]
