"""Session rows: read back unchanged, one open session for each key, the first end wins, and a deleted session
leaves no rows."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hermes_trio.base.errors import InvalidId
from hermes_trio.base.messages import SessionSource
from hermes_trio.state.db.engine import Db
from hermes_trio.state.rules import settle
from hermes_trio.state.tables import approvals, outbox, processes, sessions, transcript, turns
from hermes_trio.state.tables.approvals import ApprovalRow
from hermes_trio.state.tables.processes import ProcessRow
from hermes_trio.state.tables.session_entry import Mark, SessionEntry, Usage
from hermes_trio.state.tables.transcript import TranscriptRow
from hermes_trio.state.tables.turns import Outcome
from tests.logs import capture_logs
from tests.state.rows import (
    NOON,
    everything,
    received,
    scans,
    session,
    state_of,
    texts,
    the_session,
    to_chat,
    turn,
    undone,
)
from tests.state.seams import check_by_engine, refused

times = st.floats(0, 4e9, allow_nan=False)
counts = st.integers(0, 2**62)
any_text = texts(20)
optional = st.none() | any_text
sources = st.builds(
    SessionSource,
    platform=any_text,
    chat_id=any_text,
    user_id=optional,
    user_name=optional,
    thread_id=optional,
)
marks = st.builds(Mark, st.sampled_from(["resume_pending", "suspended"]), optional, st.none() | times)
entries = st.builds(
    SessionEntry,
    session_key=st.just("agent:main:telegram:dm:42"),
    session_id=st.just("20260520_120000_00000001"),
    created_at=times,
    updated_at=times,
    origin=st.none() | sources,
    display_name=optional,
    platform=optional,
    chat_type=any_text,
    mark=st.none() | marks,
    auto_reset_reason=optional,
    reset_had_activity=st.booleans(),
    cuts_forgiven=counts,
    model_override=st.none()
    | st.dictionaries(st.sampled_from(["model", "provider", "base_url"]), any_text, min_size=1),
    usage=st.builds(Usage, counts, counts, counts, counts, counts, st.none() | st.floats(0, 1e9)),
)


@settings(max_examples=100)
@given(entry=entries, ended=st.none() | st.tuples(times, any_text))
def test_a_session_entry_is_read_back_unchanged(
    shared_db: Db, entry: SessionEntry, ended: tuple[float, str] | None
) -> None:
    if ended is not None:
        entry = replace(entry, mark=None, ended_at=ended[0], end_reason=ended[1])
    with undone(shared_db) as db:
        sessions.add(db, entry)
        assert sessions.by_id(db, entry.session_id) == entry
        assert sessions.open_by_key(db, entry.session_key) == (entry if ended is None else None)
        assert sessions.newest(db, limit=10) == [entry]


def test_a_key_has_one_open_session_and_any_number_of_ended_ones(db: Db) -> None:
    session(db, "s1", key="chat")
    with refused("UNIQUE"):
        session(db, "s2", key="chat")
    assert sessions.end(db, "s1", "reset", NOON)
    session(db, "s2", key="chat")
    assert sessions.end(db, "s2", "reset", NOON)
    session(db, "s3", key="chat")
    found = sessions.open_by_key(db, "chat")
    assert found is not None
    assert found.session_id == "s3"
    with refused("UNIQUE"):
        session(db, "s3", key="another chat")


def test_the_first_end_of_a_session_wins_and_removes_the_mark(db: Db) -> None:
    session(db, mark=Mark("suspended", "stuck", NOON))
    assert sessions.end(db, "s1", "suspended", NOON + 1) is True
    assert sessions.end(db, "s1", "idle", NOON + 2) is False
    ended = the_session(db)
    assert (ended.ended_at, ended.end_reason, ended.mark) == (NOON + 1, "suspended", None)
    assert sessions.end(db, "nobody", "idle", NOON) is False


@pytest.mark.parametrize(
    "bad", ["", "..", "a/b", "a\\b", "C:\\x", "a\0b", "-a", ".a", "nul.txt", "a" * 129, "a..b"]
)
def test_an_unsafe_session_id_is_never_stored(db: Db, bad: str) -> None:
    with pytest.raises(InvalidId):
        session(db, bad)
    assert sessions.newest(db, limit=10) == []


def test_session_lists_are_ordered_by_use_or_by_mark(db: Db) -> None:
    for number, (used, marked) in enumerate([(3, 30), (1, 10), (2, None), (2, 20)]):
        mark = None if marked is None else Mark("resume_pending", None, NOON + marked)
        session(db, f"s{number}", mark=mark, used_at=NOON + used)
    session(db, "suspended", mark=Mark("suspended", None, NOON), used_at=NOON + 4)
    session(db, "ended", used_at=NOON + 5)
    sessions.end(db, "ended", "reset", NOON)
    assert [entry.session_id for entry in sessions.newest(db, limit=5)] == [
        "ended",
        "suspended",
        "s0",
        "s3",
        "s2",
    ]
    assert [entry.session_id for entry in sessions.marked(db)] == ["s1", "s3", "s0"]
    assert {entry.session_id for entry in sessions.used_since(db, NOON + 3)} == {"s0", "suspended"}


def test_usage_is_summed_and_an_unknown_cost_stays_unknown(db: Db) -> None:
    session(db)
    sessions.add_usage(db, "s1", Usage(10, 5, 3, 2, last_prompt_tokens=18))
    assert the_session(db).usage == Usage(10, 5, 3, 2, 18, None)
    sessions.add_usage(db, "s1", Usage(1, 1, 1, 1, last_prompt_tokens=4, cost_usd=0.25))
    sessions.add_usage(db, "s1", Usage(0, 0, 0, 0, last_prompt_tokens=0, cost_usd=None))
    assert the_session(db).usage == Usage(11, 6, 4, 3, 0, 0.25)


@pytest.mark.parametrize("bad", ["", "{", "[]", "17", '{"chat_id": 5}', '"text"', "null", "[" * 100_000])
@pytest.mark.parametrize("column", ["origin", "model_override"])
def test_an_unreadable_value_of_a_session_is_none_and_logged(db: Db, column: str, bad: str) -> None:
    """One bad row must not break a list of sessions, or a start."""
    session(db, mark=Mark("resume_pending", None, NOON))
    db.execute(f"UPDATE sessions SET {column} = ?", (bad,))  # noqa: S608
    session(db, "s2")
    with capture_logs() as logs:
        [first, second] = sorted(sessions.newest(db, limit=10), key=lambda entry: entry.session_id)
        assert [entry.session_id for entry in sessions.marked(db)] == ["s1"]
    assert getattr(first, column) is None
    assert second.origin is not None
    if bad:
        assert {entry["session"] for entry in logs} == {"s1"}


def fill(db: Db, session_id: str) -> None:
    """Add rows of a session to every table that refers to sessions."""
    session(db, session_id, mark=Mark("resume_pending", "crash", NOON))
    cut = turn(db, session_id, run=f"{session_id} cut", ended=Outcome.CUT)
    running = turns.begin(
        db, run_id=f"{session_id} on", session_id=session_id, life="l", at=NOON, resumes=cut
    )
    for turn_id in (None, cut, running):
        for role in ("user", "assistant", "tool"):
            transcript.append(db, session_id, TranscriptRow(role, f"words of {session_id}", NOON, turn_id))
    approvals.ask(db, ApprovalRow(f"{session_id} a", running, "approval", "{}", NOON))
    outbox.owe(db, to_chat(f"{session_id} o", session_id=session_id, turn_id=cut), NOON)
    processes.add(db, ProcessRow(f"{session_id} p", session_id, "life-1", 1, 1.0, "sleep", True, NOON))
    inbox_id = received(db, f"{session_id} m", key=f"key of {session_id}")
    db.execute("UPDATE inbox SET state = 'of_turn', turn_id = ? WHERE inbox_id = ?", (cut, inbox_id))


def test_deleting_a_session_deletes_all_its_rows_and_no_others(db: Db) -> None:
    fill(db, "s2")
    alone = everything(db)
    fill(db, "s1")
    waiting = received(db, "waits", key="key of s1")
    assert settle.delete_session(db, "s1", NOON + 1) is True
    assert settle.delete_session(db, "s1", NOON + 1) is False
    after = everything(db)
    for table in ("sessions", "turns", "messages", "processes", "approvals"):
        assert after[table] == alone[table], table
    assert [found for found, _ in transcript.search(db, "words")] == ["s2"] * 6
    check_by_engine(db)
    # Received and owed messages belong to the chat. No open row refers to a deleted turn.
    assert [delivery.owed.delivery_key for delivery in outbox.undelivered(db, "telegram", "main")] == [
        "s2 o",
        "s1 o",
    ]
    assert state_of(db, waiting) == ("pending", None)
    assert db.execute("SELECT state, done_at FROM inbox WHERE message_key = 'id:s1 m'").fetchone() == (
        "done",
        NOON + 1,
    )


def test_a_turn_with_open_messages_cannot_be_deleted(db: Db) -> None:
    fill(db, "s1")
    with refused("CHECK"):
        sessions.delete(db, "s1")


@pytest.mark.sqlite
@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM sessions WHERE session_id = 's1'",
        "DELETE FROM turns WHERE turn_id = 1",
        "DELETE FROM messages WHERE turn_id = 1 AND recovered",
        "SELECT 1 FROM inbox WHERE turn_id = 1 AND state = 'of_turn'",
        "SELECT 1 FROM inbox WHERE session_key = 'k' AND state = 'pending' ORDER BY inbox_id",
        "SELECT 1 FROM messages WHERE session_id = 's1' ORDER BY turn_id NULLS FIRST, place, message_id",
        "DELETE FROM inbox WHERE state = 'done' AND done_at < 1",
        "DELETE FROM outbox WHERE done_at < 1 OR (done_at IS NULL AND streamed AND attempted_at < 1)",
    ],
)
def test_frequent_statements_scan_no_whole_table(db: Db, statement: str) -> None:
    """The database has one writer: everybody waits while it reads a hundred thousand rows to delete one."""
    assert scans(db, statement) == []
