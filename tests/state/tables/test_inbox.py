"""The inbox: a message is stored once, and is pending, of a turn, or done."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hermes_trio.base.messages import Attachment, MessageEvent, SessionSource
from hermes_trio.state.db.engine import Db
from hermes_trio.state.tables import inbox
from hermes_trio.state.tables.inbox import InboxState, Received, Stored
from hermes_trio.state.tables.turns import Outcome
from tests.logs import capture_logs
from tests.state.rows import KIM, NOON, received, session, state_of, turn, undone

texts = st.text(max_size=20)
optional = st.none() | texts
events = st.builds(
    MessageEvent,
    source=st.builds(
        SessionSource, platform=texts, chat_id=texts, user_id=optional, thread_id=optional, account=texts
    ),
    text=texts,
    message_id=optional,
    kind=st.sampled_from(["text", "command", "callback", "internal"]),
    attachments=st.lists(st.builds(Attachment, st.just("photo"), optional, url=optional), max_size=2).map(
        tuple
    ),
    reply_to=optional,
    sent_at=st.none() | st.floats(0, 4e9),
    edited=st.booleans(),
    idempotency_key=optional,
)


@settings(max_examples=100)
@given(event=events)
def test_a_message_is_read_back_unchanged(shared_db: Db, event: MessageEvent) -> None:
    with undone(shared_db) as db:
        stored = inbox.store(db, event, session_key="key", own_key="own", at=NOON)
        assert inbox.pending(db, "key") == [
            Received(stored.inbox_id, "key", event, NOON, InboxState.PENDING, None)
        ]


def store(db: Db, event: MessageEvent, own_key: str = "own", *, at: float = NOON) -> Stored:
    return inbox.store(db, event, session_key="key", own_key=own_key, at=at)


def test_a_message_received_twice_has_one_row(db: Db) -> None:
    first = store(db, MessageEvent(KIM, "Hello.", "7"))
    again = store(db, MessageEvent(KIM, "Hello, in other words.", "7"), "another key of ours", at=NOON + 9)
    assert first.seen_before is False
    assert again == Stored(first.inbox_id, seen_before=True)
    [kept] = inbox.pending(db, "key")
    assert (kept.event.text, kept.received_at) == ("Hello.", NOON)


@pytest.mark.parametrize("state", ["of a turn", "done"])
def test_a_message_received_again_after_its_turn_does_not_wait_again(db: Db, state: str) -> None:
    session(db)
    stored = store(db, MessageEvent(KIM, "Hello.", "7"))
    turn_id = turn(db)
    inbox.join_turn(db, turn_id, [stored.inbox_id])
    if state == "done":
        inbox.close_turn(db, turn_id, NOON)
    assert store(db, MessageEvent(KIM, "Hello.", "7")).seen_before is True
    assert inbox.pending(db, "key") == []


EVENT = MessageEvent(KIM, "Hello.", "7", sent_at=NOON)
EDITED = replace(EVENT, text="Hello!", edited=True, sent_at=NOON + 60)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (EVENT, replace(EVENT, text="Something else"), True),
        (EVENT, replace(EVENT, message_id="8"), False),
        (EVENT, replace(EVENT, source=replace(KIM, chat_id="43")), False),
        (EVENT, replace(EVENT, source=replace(KIM, account="second")), False),
        (EVENT, replace(EVENT, source=replace(KIM, platform="discord")), False),
        (EVENT, replace(EVENT, source=replace(KIM, user_name="Kim, renamed")), True),
        (EVENT, EDITED, False),
        (EDITED, replace(EDITED), True),
        (EDITED, replace(EDITED, sent_at=NOON + 120), False),
        (replace(EVENT, message_id=None, idempotency_key="7"), EVENT, False),
        (
            replace(EVENT, message_id=None, idempotency_key="7"),
            replace(EVENT, message_id=None, idempotency_key="7", text="Hi"),
            True,
        ),
        (replace(EVENT, message_id=None), replace(EVENT, message_id=None), False),
    ],
    ids=[
        "same id, other text",
        "other id",
        "other chat",
        "other account",
        "other platform",
        "renamed person",
        "an edit",
        "the same edit",
        "a later edit",
        "a caller's key like an id",
        "the same caller's key",
        "no name at all",
    ],
)
def test_a_message_is_identified_by_account_chat_id_and_edit(
    db: Db, one: MessageEvent, other: MessageEvent, same: bool
) -> None:
    first = store(db, one, "own 1")
    second = store(db, other, "own 2")
    assert second.seen_before is same
    assert (first.inbox_id == second.inbox_id) is same


def test_an_own_key_never_equals_a_platform_id(db: Db) -> None:
    store(db, MessageEvent(KIM, "Hello."), "7")
    for message_id in ("7", "ours:7", "own 7"):
        assert store(db, MessageEvent(KIM, "Hello.", message_id)).seen_before is False
    assert store(db, MessageEvent(KIM, "Hello."), "7").seen_before is True


def test_a_command_is_stored_as_done_and_never_replayed(db: Db) -> None:
    command = MessageEvent(KIM, "/stop", "7", kind="command")
    stored = inbox.store(db, command, session_key="key", own_key="own", at=NOON, done=True)
    assert stored.seen_before is False
    assert state_of(db, stored.inbox_id) == ("done", None)
    assert inbox.pending(db, "key") == []
    assert inbox.keys_with_pending(db) == []
    assert inbox.store(db, command, session_key="key", own_key="own", at=NOON, done=True).seen_before is True


def test_messages_wait_in_order_of_arrival(db: Db) -> None:
    session(db)
    ids = [received(db, f"{number}", key=key) for number, key in enumerate(["b", "a", "b", "c", "a"])]
    assert [row.inbox_id for row in inbox.pending(db, "b")] == [ids[0], ids[2]]
    assert inbox.keys_with_pending(db) == ["b", "a", "c"]
    assert inbox.waiting_keys(db, "telegram", "main") == ["b", "a", "c"]
    assert inbox.waiting_keys(db, "telegram", "second") == []
    turn_id = turn(db)
    assert inbox.join_turn(db, turn_id, [ids[0]])() == 1
    assert inbox.keys_with_pending(db) == ["a", "b", "c"]
    inbox.reopen_turn(db, turn_id)
    assert inbox.keys_with_pending(db) == ["b", "a", "c"], "in its old order"
    assert [row.inbox_id for row in inbox.pending(db, "b")] == [ids[0], ids[2]]


def test_a_turn_may_have_many_messages_and_a_message_one_turn(db: Db) -> None:
    session(db)
    session(db, "s2")
    one, two, three = (received(db, str(number)) for number in range(3))
    first, second = turn(db, run="r1"), turn(db, "s2", run="r2")
    assert inbox.join_turn(db, first, [one, two])() == 2
    assert inbox.join_turn(db, second, [two, three, 999])() == 1, "a message stays with its first turn"
    assert [row.inbox_id for row in inbox.of_turn(db, first)] == [one, two]
    assert [(row.inbox_id, row.state, row.turn_id) for row in inbox.of_turn(db, second)] == [
        (three, InboxState.OF_TURN, second)
    ]
    inbox.close_turn(db, first, NOON + 1)
    assert [state_of(db, row) for row in (one, two, three)] == [
        ("done", first),
        ("done", first),
        ("of_turn", second),
    ]
    assert inbox.of_turn(db, first) == []
    assert inbox.join_turn(db, second, [one])() == 0, "a done message joins no turn"


def test_close_cut_turns_closes_only_messages_of_cut_turns(db: Db) -> None:
    session(db)
    session(db, "s2")
    cut, elsewhere = turn(db, run="r1", ended=Outcome.CUT), turn(db, "s2", run="r2", ended=Outcome.CUT)
    running = turn(db, run="r3")
    rows = {turn_id: received(db, f"of {turn_id}") for turn_id in (cut, elsewhere, running)}
    for turn_id, inbox_id in rows.items():
        inbox.join_turn(db, turn_id, [inbox_id])
    inbox.close_cut_turns(db, "s1", NOON + 1)
    assert [state_of(db, rows[turn_id])[0] for turn_id in (cut, elsewhere, running)] == [
        "done",
        "of_turn",
        "of_turn",
    ]


def test_pruning_the_inbox_deletes_old_done_rows_and_no_open_one(db: Db) -> None:
    session(db)
    old, new, open_one, waiting = (received(db, str(number)) for number in range(4))
    first, second, third = (turn(db, run=f"r{n}", ended=Outcome.CUT) for n in range(3))
    for turn_id, inbox_id in ((first, old), (second, new), (third, open_one)):
        inbox.join_turn(db, turn_id, [inbox_id])
    inbox.close_turn(db, first, NOON)
    inbox.close_turn(db, second, NOON + 10)
    assert inbox.prune(db, done_before=NOON + 10, limit=10) == 1
    left = {row for (row,) in db.execute("SELECT inbox_id FROM inbox")}
    assert left == {new, open_one, waiting}


@pytest.mark.parametrize(
    "bad", ["", "{", "17", '"Hello."', "[]", '{"text": "Hello."}', '{"source": 5}', "[" * 100_000]
)
def test_an_unreadable_message_is_logged_and_blocks_no_other(db: Db, bad: str) -> None:
    session(db)
    bad_one, good = received(db, "1"), received(db, "2")
    db.execute("UPDATE inbox SET event = ? WHERE inbox_id = ?", (bad, bad_one))
    with capture_logs() as logs:
        assert [row.inbox_id for row in inbox.pending(db, "key of s1")] == [good]
    assert [(entry["message"], entry["column"]) for entry in logs] == [(bad_one, "event")]
    turn_id = turn(db)
    inbox.join_turn(db, turn_id, [bad_one, good])
    with capture_logs():
        assert [row.inbox_id for row in inbox.of_turn(db, turn_id)] == [good]
    inbox.close_turn(db, turn_id, NOON)
    assert state_of(db, bad_one) == ("done", turn_id)
