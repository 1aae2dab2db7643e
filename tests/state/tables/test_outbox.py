"""The outbox: a message is owed once, its attempt is recorded before the send, and a kill loses no state."""

from __future__ import annotations

import pytest

from hermes_trio.state.db.engine import Db
from hermes_trio.state.tables import outbox
from hermes_trio.state.tables.outbox import OutboxRow, OutboxState, Owed
from tests.state.rows import NOON, session, to_chat, turn


def owe(db: Db, owed: Owed, at: float = NOON) -> OutboxRow:
    """Store a new owed message; return its row."""
    outbox.owe(db, owed, at)
    (outbox_id,) = db.execute(
        "SELECT outbox_id FROM outbox WHERE delivery_key = ?", (owed.delivery_key,)
    ).fetchone()
    return the_row(db, outbox_id)


def the_row(db: Db, outbox_id: int) -> OutboxRow:
    found = outbox.get(db, outbox_id)
    assert found is not None
    return found


def owed_now(db: Db) -> list[str]:
    return [row.owed.delivery_key for row in outbox.undelivered(db, "telegram", "main")]


def test_an_owed_message_is_read_back_unchanged(db: Db) -> None:
    session(db)
    owed = to_chat("k1", thread_id="5", reply_to="7", session_id="s1", turn_id=turn(db))
    row = owe(db, owed)
    assert row == OutboxRow(row.outbox_id, owed, NOON, OutboxState.OWED, 0, None, None, None)
    assert outbox.undelivered(db, "telegram", "main") == [row]
    assert outbox.get(db, row.outbox_id + 1) is None


def test_a_delivery_key_is_owed_once_whatever_its_state(db: Db) -> None:
    row = owe(db, to_chat("k1"))
    outbox.owe(db, to_chat("k1"), NOON + 1)
    outbox.note_attempt(db, row.outbox_id, NOON)
    outbox.owe(db, to_chat("k1"), NOON + 1)
    outbox.note_receipt(db, row.outbox_id, "900", NOON)
    outbox.owe(db, to_chat("k1"), NOON + 1)
    assert owed_now(db) == []


def test_a_delivery_goes_from_owed_to_sent(db: Db) -> None:
    row = owe(db, to_chat("k1"))
    outbox.note_attempt(db, row.outbox_id, NOON + 1)
    tried = the_row(db, row.outbox_id)
    assert (tried.state, tried.attempts, tried.attempted_at) == (OutboxState.ATTEMPTING, 1, NOON + 1)
    assert owed_now(db) == ["k1"], "after a kill now its outcome is unknown, so it stays open"
    outbox.note_attempt(db, row.outbox_id, NOON + 2)
    assert the_row(db, row.outbox_id).attempted_at == NOON + 1, "the first one may have arrived"
    outbox.note_receipt(db, row.outbox_id, "900", NOON + 2)
    sent = the_row(db, row.outbox_id)
    assert (sent.state, sent.receipt, sent.error) == (OutboxState.SENT, "900", None)
    assert outbox.streamed_state(db, "k1") == (False, "900", NOON + 1, 2)
    assert owed_now(db) == []


def test_a_delivery_that_certainly_failed_is_owed_again(db: Db) -> None:
    row = owe(db, to_chat("k1"))
    outbox.note_attempt(db, row.outbox_id, NOON + 1)
    outbox.note_failure(db, row.outbox_id, "connection refused")
    failed = the_row(db, row.outbox_id)
    assert (failed.state, failed.attempts, failed.error) == (OutboxState.OWED, 1, "connection refused")
    outbox.note_attempt(db, row.outbox_id, NOON + 2)
    again = the_row(db, row.outbox_id)
    assert (again.state, again.attempts, again.attempted_at, again.error) == ("attempting", 2, NOON + 2, None)


def test_a_failed_edit_counts_although_its_attempt_has_no_record(db: Db) -> None:
    row = owe(db, to_chat("k1"))
    outbox.note_failure(db, row.outbox_id, "too slow")
    failed = the_row(db, row.outbox_id)
    assert (failed.state, failed.attempts, failed.error) == (OutboxState.OWED, 1, "too slow")


@pytest.mark.parametrize("end", ["sent", "given up"])
def test_a_finished_delivery_never_changes(db: Db, end: str) -> None:
    row = owe(db, to_chat("k1"))
    outbox.note_attempt(db, row.outbox_id, NOON + 1)
    if end == "sent":
        outbox.note_receipt(db, row.outbox_id, None, NOON + 2)
    else:
        outbox.give_up(db, row.outbox_id, "the chat is gone", NOON + 2)
    over = the_row(db, row.outbox_id)
    assert over.state == {"sent": OutboxState.SENT, "given up": OutboxState.GIVEN_UP}[end]
    outbox.note_attempt(db, row.outbox_id, NOON + 3)
    outbox.note_failure(db, row.outbox_id, "late")
    outbox.note_receipt(db, row.outbox_id, "late", NOON + 3)
    outbox.give_up(db, row.outbox_id, "late", NOON + 3)
    assert outbox.begin_stream(db, to_chat("k1"), NOON + 3) == row.outbox_id
    assert the_row(db, row.outbox_id) == over
    assert owed_now(db) == []


def test_open_deliveries_are_listed_in_order_by_account_and_chat(
    db: Db,
) -> None:
    for number in (2, 1, 3):
        owe(db, to_chat(f"k{number}"), NOON - number)
    owe(db, Owed("other account", "telegram", "second", "42", "{}"))
    owe(db, Owed("other platform", "discord", "main", "42", "{}"))
    owe(db, Owed("other chat", "telegram", "main", "43", "{}"))
    assert owed_now(db) == ["k2", "k1", "k3", "other chat"]
    to_42 = outbox.undelivered_to(db, "telegram", "main", "42")
    assert [row.owed.delivery_key for row in to_42] == ["k2", "k1", "k3"]


def test_a_streamed_message_is_never_an_open_delivery(db: Db) -> None:
    stream = outbox.begin_stream(db, to_chat("stream"), NOON)
    row = the_row(db, stream)
    assert (row.state, row.attempts, row.attempted_at) == (OutboxState.ATTEMPTING, 1, NOON)
    assert owed_now(db) == []
    assert outbox.streamed_state(db, "stream") == (True, None, NOON, 1)
    outbox.note_receipt(db, stream, "900", NOON + 1)
    assert outbox.streamed_state(db, "stream") == (False, "900", NOON, 1)
    assert outbox.streamed_state(db, "nothing") == (False, None, None, 0)
    assert outbox.has_key(db, "stream") is True
    assert outbox.has_key(db, "nothing") is False


def test_pruning_the_outbox_deletes_old_finished_rows_and_no_owed_one(db: Db) -> None:
    sent, given_up, recent = (owe(db, to_chat(key)).outbox_id for key in ("sent", "given up", "recent"))
    owe(db, to_chat("owed"))
    trying = owe(db, to_chat("trying")).outbox_id
    outbox.note_attempt(db, trying, NOON)
    outbox.note_receipt(db, sent, "900", NOON)
    outbox.give_up(db, given_up, "gone", NOON)
    outbox.note_receipt(db, recent, "901", NOON + 10)
    outbox.begin_stream(db, to_chat("a stream that a kill cut off"), NOON)
    assert outbox.prune(db, done_before=NOON + 10, limit=10) == 3
    left = {key for (key,) in db.execute("SELECT delivery_key FROM outbox")}
    assert left == {"recent", "owed", "trying"}


def test_a_lone_surrogate_in_an_answer_or_an_error_costs_one_character(db: Db) -> None:
    owed = Owed("k1", "telegram", "main", "42", '{"text": "\ud83d"}')
    row = owe(db, owed)
    assert row.owed.body == '{"text": "\N{REPLACEMENT CHARACTER}"}'
    outbox.note_attempt(db, row.outbox_id, NOON)
    outbox.note_failure(db, row.outbox_id, "no file \udcff")
    assert the_row(db, row.outbox_id).error == "no file \N{REPLACEMENT CHARACTER}"
    outbox.give_up(db, row.outbox_id, "no file \udcff", NOON)
    assert the_row(db, row.outbox_id).error == "no file \N{REPLACEMENT CHARACTER}"
