"""The owners of chats: a chat has one owner, its work is adopted when that one is over, and nothing under way
is given away."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hermes_trio.base.errors import ForeignChat
from hermes_trio.base.messages import MessageEvent
from hermes_trio.state.db.engine import Db
from hermes_trio.state.rules.ownership import (
    OwnWork,
    adopt,
    check_owner,
    give_chat,
    is_own,
    own_work,
    tell_owner,
)
from hermes_trio.state.tables import chats, inbox, lives, outbox
from hermes_trio.state.tables.session_entry import Mark
from tests.state.rows import KEY, KIM, NOON, session, to_chat, turn

CHAT = KIM.platform, KIM.account, KIM.chat_id
PLACE = CHAT[:2]


@pytest.fixture(autouse=True)
def two_lives(db: Db) -> None:
    for life in ("one", "two"):
        lives.begin(db, life, life, NOON)


def tell(db: Db, life: str, text: str = "hello", message_id: str = "m1") -> bool:
    event = MessageEvent(KIM, text, message_id=message_id)
    return tell_owner(db, life, event, session_key=KEY, own_key="ours", at=NOON)


def take_in_told(db: Db, life: str) -> None:
    for row in own_work(db, life, *PLACE).told:
        inbox.store(db, row.event, session_key=KEY, own_key="ours", at=NOON)


def over(db: Db, life: str) -> None:
    lives.leave(db, life, NOON)
    chats.free(db)


def test_a_chat_has_one_owner(db: Db) -> None:
    assert chats.owner_of(db, *CHAT) is None
    assert chats.claim(db, "one", *CHAT) == "one"
    assert chats.claim(db, "two", *CHAT) == "one"
    check_owner(db, "one", *CHAT)
    with pytest.raises(ForeignChat):
        check_owner(db, "two", *CHAT)
    check_owner(db, None, *CHAT)


def test_a_message_is_told_to_the_owner_once_and_the_owner_takes_it_in_once(db: Db) -> None:
    chats.claim(db, "one", *CHAT)
    assert not tell(db, "one"), "nothing is told by the owner to itself"
    assert tell(db, "two")
    assert tell(db, "two"), "it was seen before"
    [told] = own_work(db, "one", *PLACE).told
    assert told.event.text == "hello"
    assert own_work(db, "two", *PLACE).told == ()
    stored = inbox.store(db, told.event, session_key=KEY, own_key="ours", at=NOON)
    assert not stored.seen_before
    assert [row.event.text for row in inbox.pending(db, KEY)] == ["hello"]
    assert inbox.store(db, told.event, session_key=KEY, own_key="ours", at=NOON).seen_before
    assert own_work(db, "one", *PLACE) == OwnWork(frozenset({"42"}), (), (KEY,), ())


def test_a_message_does_not_overtake_one_that_was_told_to_an_owner_who_is_over(db: Db) -> None:
    chats.claim(db, "one", *CHAT)
    assert tell(db, "two", "first", "m1")
    over(db, "one")
    second = MessageEvent(KIM, "second", message_id="m2")
    chats.claim(db, "two", *CHAT)
    assert not is_own(db, "two", second)
    assert tell(db, "two", "second", "m2")
    assert [row.event.text for row in own_work(db, "two", *PLACE).told] == ["first", "second"]
    take_in_told(db, "two")
    assert is_own(db, "two", MessageEvent(KIM, "third", message_id="m3"))


def test_a_told_command_is_done_when_it_is_taken_in(db: Db) -> None:
    chats.claim(db, "one", *CHAT)
    tell(db, "two", "/stop")
    [told] = own_work(db, "one", *PLACE).told
    assert not inbox.store(db, told.event, session_key=KEY, own_key="ours", at=NOON, done=True).seen_before
    assert inbox.pending(db, KEY) == []
    assert own_work(db, "one", *PLACE).told == ()


def test_work_of_a_life_that_is_over_is_adopted_and_work_of_others_is_not(db: Db) -> None:
    chats.claim(db, "one", *CHAT)
    outbox.owe(db, to_chat("answer"), NOON)
    assert own_work(db, "two", *PLACE) == OwnWork(frozenset(), (), (), ())
    over(db, "one")
    assert own_work(db, "two", *PLACE).free == {"42"}
    assert chats.owner_of(db, *CHAT) is None, "a look changes nothing"
    assert adopt(db, "two", *PLACE).chats == {"42"}
    assert own_work(db, "two", *PLACE).owed == ("42",)
    assert chats.owner_of(db, *CHAT) == "two"


def test_a_message_in_a_chat_with_a_cut_turn_waits_until_the_chat_is_adopted(db: Db) -> None:
    session(db, mark=Mark("resume_pending", "crash", NOON))
    assert tell(db, "one")
    assert chats.owner_of(db, *CHAT) is None
    assert [row.event.text for row in adopt(db, "two", *PLACE).told] == ["hello"]
    assert tell(db, "two", message_id="m2"), "it owns the chat, and resumes the turn first"
    take_in_told(db, "two")
    turn(db, life="two")
    assert not tell(db, "two", message_id="m3"), "the turn runs"


def test_a_chat_without_work_is_adopted_by_nobody(db: Db) -> None:
    chats.claim(db, "one", *CHAT)
    over(db, "one")
    assert adopt(db, "two", *PLACE).chats == frozenset()


def test_a_chat_is_given_away_when_nothing_is_under_way(db: Db) -> None:
    chats.claim(db, "one", *CHAT)
    assert not give_chat(db, "two", "one", *CHAT), "it is not its own"
    assert not give_chat(db, "one", "nobody", *CHAT), "there is no such life"
    assert give_chat(db, "one", "two", *CHAT)
    assert chats.owner_of(db, *CHAT) == "two"
    over(db, "one")
    assert not give_chat(db, "two", "one", *CHAT), "that life is over"


def test_a_chat_is_not_given_away_during_a_turn(db: Db) -> None:
    chats.claim(db, "one", *CHAT)
    session(db)
    turn(db, life="one")
    assert not give_chat(db, "one", "two", *CHAT)
    assert chats.owner_of(db, *CHAT) == "one"


def test_a_chat_is_not_given_away_during_a_delivery(db: Db) -> None:
    chats.claim(db, "one", *CHAT)
    outbox.owe(db, to_chat("answer"), NOON)
    [row] = outbox.undelivered_to(db, *CHAT)
    outbox.note_attempt(db, row.outbox_id, NOON)
    assert not give_chat(db, "one", "two", *CHAT)
    outbox.note_receipt(db, row.outbox_id, "7", NOON)
    assert give_chat(db, "one", "two", *CHAT)


def test_a_role_has_one_life_until_that_is_over(db: Db) -> None:
    assert chats.take_role(db, "receive:telegram/main", "one")
    assert not chats.take_role(db, "receive:telegram/main", "two")
    assert chats.take_role(db, "receive:telegram/main", "one")
    assert not chats.any_to_free(db)
    lives.leave(db, "one", NOON)
    assert chats.any_to_free(db)
    chats.free(db)
    assert chats.take_role(db, "receive:telegram/main", "two")


def test_chats_of_another_account_are_left_alone(db: Db) -> None:
    other = replace(KIM, account="other")
    inbox.store(db, MessageEvent(other, "hi", message_id="m"), session_key=KEY, own_key="o", at=NOON)
    assert adopt(db, "one", *PLACE).chats == frozenset()
    assert adopt(db, "one", KIM.platform, "other").chats == {"42"}
