"""The tables of processes, approvals, endings and meta facts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hermes_trio.state.db.engine import Db
from hermes_trio.state.tables import approvals, endings, lives, meta, processes
from hermes_trio.state.tables.approvals import ApprovalRow
from hermes_trio.state.tables.endings import EndingRow
from hermes_trio.state.tables.processes import ProcessRow
from hermes_trio.state.tables.turns import Outcome
from tests.state.rows import NOON, session, turn
from tests.state.seams import refused

SERVER = ProcessRow("p1", "s1", "life-1", 4711, 123.25, "python -m http.server", True, NOON, "spool/p1")


def test_a_process_is_alive_until_its_end_is_stored(db: Db) -> None:
    session(db)
    build = ProcessRow("p2", "s1", "life-2", 4712, 124.5, "make", False, NOON - 1)
    processes.add(db, SERVER)
    processes.add(db, build)
    assert processes.alive(db) == [build, SERVER], "the oldest first, of all lives"
    assert processes.end(db, "p2", 2, NOON + 1) is True
    assert processes.end(db, "p2", 0, NOON + 2) is False, "the first end wins"
    assert processes.end(db, "p3", 0, NOON) is False
    assert processes.alive(db) == [SERVER]
    assert db.execute("SELECT exit_code, ended_at FROM processes WHERE process_id = 'p2'").fetchone() == (
        2,
        NOON + 1,
    )
    assert processes.end(db, "p1", None, NOON + 1) is True, "an end with an unknown exit code"
    assert processes.alive(db) == []


def test_a_process_id_is_unique_and_needs_an_existing_session(db: Db) -> None:
    session(db)
    processes.add(db, SERVER)
    with refused("UNIQUE"):
        processes.add(db, SERVER)
    with refused("FOREIGN KEY"):
        processes.add(db, replace(SERVER, process_id="p2", session_id="nowhere"))


def test_newest_background_is_the_start_of_the_newest_running_background_process(
    db: Db,
) -> None:
    session(db)
    session(db, "s2")
    assert processes.newest_background(db, "s1") is None
    processes.add(db, SERVER)
    processes.add(db, replace(SERVER, process_id="p2", started_at=NOON + 1))
    processes.add(db, replace(SERVER, process_id="p3", started_at=NOON + 2, background=False))
    processes.add(db, replace(SERVER, process_id="p4", started_at=NOON + 3, session_id="s2"))
    assert processes.newest_background(db, "s1") == NOON + 1
    processes.end(db, "p2", 0, NOON + 4)
    assert processes.newest_background(db, "s1") == NOON


def test_pruning_processes_deletes_old_ended_ones_and_returns_their_spools(db: Db) -> None:
    session(db)
    for number, ended in enumerate([NOON, NOON, NOON + 10, None]):
        spool = None if number == 1 else f"spool/{number}"
        processes.add(db, replace(SERVER, process_id=f"p{number}", spool=spool))
        if ended is not None:
            processes.end(db, f"p{number}", 0, ended)
    assert processes.prune(db, ended_before=NOON + 10) == ["spool/0"]
    assert [name for (name,) in db.execute("SELECT process_id FROM processes ORDER BY 1")] == ["p2", "p3"]


def test_the_first_answer_to_an_approval_is_stored_and_a_late_one_is_refused(db: Db) -> None:
    session(db)
    turn_id = turn(db)
    asked = ApprovalRow("a1", turn_id, "approval", '{"command": "rm -r build"}', NOON)
    question = ApprovalRow("a2", turn_id, "question", '{"question": "Which?"}', NOON)
    approvals.ask(db, asked)
    approvals.ask(db, question)
    assert approvals.get(db, "a1") == asked
    assert approvals.open_of_turn(db, turn_id) == [asked, question]
    assert approvals.answer(db, "a1", "once", by="42", at=NOON + 1) is True
    assert approvals.answer(db, "a1", "deny", by="43", at=NOON + 2) is False
    answered = replace(asked, answer="once", answered_by="42", closed_at=NOON + 1)
    assert approvals.get(db, "a1") == answered
    assert approvals.open_of_turn(db, turn_id) == [question]
    approvals.close_of_turn(db, turn_id, NOON + 3)
    assert approvals.answer(db, "a2", "the first", by="42", at=NOON + 4) is False, "its turn is over"
    assert approvals.get(db, "a2") == replace(question, closed_at=NOON + 3)
    assert approvals.get(db, "a1") == answered, "an answered request does not change"
    assert approvals.answer(db, "nothing", "yes", by="42", at=NOON) is False
    assert approvals.get(db, "nothing") is None


def test_an_approval_id_is_unique_and_needs_an_existing_turn(db: Db) -> None:
    session(db)
    first, second = turn(db, run="r1", ended=Outcome.ANSWERED), turn(db, run="r2")
    asked = ApprovalRow("a1", first, "approval", "{}", NOON)
    approvals.ask(db, asked)
    with refused("UNIQUE"):
        approvals.ask(db, replace(asked, turn_id=second))
    with refused("FOREIGN KEY"):
        approvals.ask(db, replace(asked, approval_id="a2", turn_id=second + 1))
    approvals.close_of_turn(db, second, NOON)
    assert approvals.open_of_turn(db, first) == [asked], "only requests of the ended turn are closed"


RESTART = EndingRow("life-1", "restart", "SIGUSR1", 30.0, "restart_timeout", "stopped", NOON, asked_by="42")


def test_the_ending_of_a_life_can_be_read_by_the_next(db: Db) -> None:
    assert endings.of_life(db, "life-1") is None, "a life without an ending crashed"
    endings.record(db, RESTART)
    assert endings.of_life(db, "life-1") == RESTART
    endings.finish(db, "life-1", '{"cut": 1}', NOON + 31)
    over = replace(RESTART, finished_at=NOON + 31, report='{"cut": 1}')
    assert endings.of_life(db, "life-1") == over
    later = EndingRow("life-2", "stop", "marker", 0.0, "shutdown_timeout", "stopped", NOON + 100)
    endings.record(db, later)
    assert endings.of_life(db, "life-1") == over
    assert endings.of_life(db, "life-2") == later


def test_the_latest_ending_is_that_of_a_home_and_not_of_another_one_on_the_same_store(db: Db) -> None:
    for life, home in (("life-1", "here"), ("life-2", "there"), ("life-3", "here")):
        lives.begin(db, life, life, NOON, home=home)
    assert endings.latest(db, "here") is None
    there = replace(RESTART, life="life-2", recorded_at=NOON + 100)
    for ending in (RESTART, there):
        endings.record(db, ending)
    assert endings.latest(db, "here") == RESTART
    assert endings.latest(db, "there") == there
    assert endings.latest(db, "nowhere") is None


def test_the_last_ending_of_each_home_is_kept_with_its_life(db: Db) -> None:
    for number, home in enumerate(("here", "there", "here", "here")):
        lives.begin(db, f"life-{number}", f"life-{number}", NOON, home=home)
        endings.record(db, replace(RESTART, life=f"life-{number}", recorded_at=NOON + number))
        lives.leave(db, f"life-{number}", NOON + number)
    assert endings.prune(db, recorded_before=NOON + 100, limit=1) == 1
    assert endings.prune(db, recorded_before=NOON + 100, limit=10) == 1
    lives.prune(db, over_before=NOON + 100)
    for table in ("endings", "lives"):
        kept = db.execute(f"SELECT life FROM {table} ORDER BY life").fetchall()  # noqa: S608
        assert kept == [("life-1",), ("life-3",)]


def test_a_stop_during_a_restart_replaces_the_ending(db: Db) -> None:
    endings.record(db, RESTART)
    stop = EndingRow("life-1", "stop", "SIGTERM", 0.0, "shutdown_timeout", "running", NOON + 1)
    endings.record(db, stop)
    assert endings.of_life(db, "life-1") == replace(stop, recorded_at=NOON), (
        "decided when it was first decided"
    )
    assert db.execute("SELECT count(*) FROM endings").fetchone() == (1,)


def test_a_meta_fact_has_the_value_stored_last(db: Db) -> None:
    assert meta.get(db, "name") is None
    for value in ("one", "two", ""):
        meta.put(db, "name", value)
        assert meta.get(db, "name") == value
    assert meta.get(db, "Name") is None


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE turns SET outcome = 'invented'",
        "UPDATE turns SET ended_at = 1",
        "UPDATE turns SET recovery = 'invented'",
        "UPDATE sessions SET mark = 'invented'",
        "UPDATE sessions SET marked_at = 1",
        "UPDATE sessions SET ended_at = 1",
        "UPDATE sessions SET ended_at = 1, end_reason = 'idle', mark = 'suspended'",
        "UPDATE sessions SET input_tokens = 'many'",
        "UPDATE inbox SET state = 'invented'",
        "UPDATE inbox SET state = 'done'",
        "UPDATE inbox SET state = 'of_turn'",
        "UPDATE outbox SET state = 'sent'",
        "UPDATE outbox SET state = 'invented'",
        "UPDATE approvals SET kind = 'invented'",
        "UPDATE endings SET kind = 'invented'",
        "UPDATE endings SET state_left = 'invented'",
        "INSERT INTO messages (session_id, place, role, content, created_at) "
        "VALUES ('s1', 0, 'robot', '', 1)",
    ],
)
def test_the_schema_refuses_impossible_rows(db: Db, statement: str) -> None:
    session(db)
    approvals.ask(db, ApprovalRow("a1", turn(db), "approval", "{}", NOON))
    endings.record(db, RESTART)
    db.execute(
        "INSERT INTO inbox (platform, account, chat_id, message_key, session_key, event, received_at, state) "
        "VALUES ('telegram', 'main', '42', 'id:1', 'key', '{}', 1.0, 'pending')"
    )
    db.execute(
        "INSERT INTO outbox (delivery_key, platform, account, chat_id, body, created_at, state) "
        "VALUES ('k', 'telegram', 'main', '42', '{}', 1.0, 'owed')"
    )
    with refused():
        db.execute(statement)
