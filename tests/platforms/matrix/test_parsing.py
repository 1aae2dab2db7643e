"""Events of rooms as events of the gateway."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_platforms.matrix.parsing import Account, Room, RoomEvent, event_of, read_event
from hermes_trio.platform import MessageEvent

ME = Account("@bot:x.org")
DIRECT = Room("!d:x.org", is_direct=True, people=(("@ann:x.org", "Ann"), ("@bot:x.org", "Hermes")))
GROUP = Room("!g:x.org", people=(("@ann:x.org", "Ann"), ("@bot:x.org", "Hermes"), ("@eve:x.org", "Eve")))
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["content", "body", "msgtype", "m.relates_to", "m.mentions", "sender", "event_id"]
            ),
            inner,
            max_size=5,
        )
    ),
    max_leaves=12,
)


def message(text: str, **content: Any) -> dict[str, Any]:
    content = {"msgtype": "m.text", "body": text, **content}
    base = {"event_id": "$1", "type": "m.room.message", "sender": "@ann:x.org", "origin_server_ts": 5000}
    return base | {"content": content}


def parsed(payload: dict[str, Any], room: Room = DIRECT) -> MessageEvent | None:
    read = read_event(payload, ME)
    assert isinstance(read, RoomEvent)
    return event_of(read, ME, room)


@pytest.mark.parametrize(
    "payload",
    [
        message("hello") | {"sender": "@bot:x.org"},
        message("hello") | {"content": {}},
        message("hello") | {"type": "m.reaction"},
        message("from a program", msgtype="m.notice"),
        None,
        7,
    ],
)
def test_an_event_that_no_person_wrote_is_none(payload: object) -> None:
    assert read_event(payload, ME) is None


def test_a_message_names_its_room_its_person_and_its_thread() -> None:
    thread = {
        "rel_type": "m.thread",
        "event_id": "$0",
        "is_falling_back": True,
        "m.in_reply_to": {"event_id": "$9"},
    }
    event = parsed(message("hello", **{"m.relates_to": thread}))
    assert event is not None
    source = event.source
    assert (source.chat_id, source.chat_type, source.user_id) == ("!d:x.org", "dm", "@ann:x.org")
    assert (source.user_name, source.thread_id) == ("Ann", "$0")
    assert (event.text, event.reply_to, event.sent_at) == ("hello", None, 5.0)


@pytest.mark.parametrize(
    ("text", "mentions", "heard"),
    [
        ("hello", [], None),
        ("Hermes: hello", ["@bot:x.org"], "hello"),
        ("@bot:x.org hello", [], "hello"),
        ("Hermes !status", ["@bot:x.org"], "/status"),
        ("hello Hermes", [], None),
    ],
)
def test_in_a_room_of_many_only_a_mention_is_for_the_bot(
    text: str, mentions: list[str], heard: str | None
) -> None:
    event = parsed(message(text, **{"m.mentions": {"user_ids": mentions}}), GROUP)
    assert (event.text if event else None) == heard


def test_a_reply_has_no_quote_and_an_edit_has_the_new_text_under_the_first_id() -> None:
    reply = parsed(
        message("> <@eve:x.org> old\n\nnew", **{"m.relates_to": {"m.in_reply_to": {"event_id": "$0"}}})
    )
    assert reply is not None
    assert (reply.text, reply.reply_to) == ("new", "$0")
    relation = {"rel_type": "m.replace", "event_id": "$0"}
    edit = parsed(
        message("* b", **{"m.new_content": {"msgtype": "m.text", "body": "b"}, "m.relates_to": relation})
    )
    assert edit is not None
    assert (edit.text, edit.message_id, edit.edited) == ("b", "$0", True)


def test_a_file_has_its_name_and_its_caption() -> None:
    file = {"msgtype": "m.image", "url": "mxc://x.org/a", "filename": "a.png", "info": {"size": 3}}
    event = parsed(message("Look", **file))
    assert event is not None
    [attached] = event.attachments
    assert (event.text, attached.kind, attached.name, attached.file_id) == (
        "Look",
        "photo",
        "a.png",
        "mxc://x.org/a",
    )
    only = parsed(message("a.png", **file))
    assert only is not None
    assert only.text == ""


@given(JSON)
def test_any_json_is_an_event_or_nothing(content: object) -> None:
    read = read_event({"type": "m.room.message", "event_id": "$1", "sender": "@a:b", "content": content}, ME)
    if isinstance(read, RoomEvent):
        event_of(read, ME, GROUP)
