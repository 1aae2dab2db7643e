"""What Discord dispatches, as events."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_platforms.discord.parsing import (
    Bot,
    event_of_interaction,
    event_of_message,
    place_of,
    read_interaction,
    read_message,
)
from hermes_platforms.discord.payload import Channel, Interaction, Message
from hermes_trio.platform import MessageEvent

BOT, CHAT = Bot("900", "hermes"), Channel("42")
DIRECT = {"id": "7", "channel_id": "42", "author": {"id": "1", "username": "ann"}, "content": "hello"}
GROUP = DIRECT | {"guild_id": "5"}
NAMED = GROUP | {"content": "<@900> hello", "mentions": [{"id": "900", "username": "hermes"}]}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from([*NAMED, "type", "data", "token"]), inner, max_size=6)
    ),
    max_leaves=12,
)


def parsed(payload: dict[str, Any], *, channel: Channel = CHAT, edited: bool = False) -> MessageEvent:
    message = read_message(payload, BOT)
    assert isinstance(message, Message)
    event = event_of_message(message, BOT, channel, edited=edited)
    assert event is not None
    return event


@pytest.mark.parametrize(
    "payload",
    [
        GROUP,
        DIRECT | {"author": {"id": "2", "username": "other", "bot": True}},
        DIRECT | {"webhook_id": "3"},
        DIRECT | {"type": 7},
        NAMED | {"type": 6},
        {"id": "7", "channel_id": "42", "embeds": []},
    ],
)
def test_a_message_that_is_not_addressed_to_the_bot_is_none(payload: dict[str, Any]) -> None:
    assert read_message(payload, BOT) is None


@pytest.mark.parametrize(
    "payload",
    [
        DIRECT,
        NAMED,
        GROUP | {"type": 19, "referenced_message": {"id": "6", "author": {"id": "900"}, "content": "Hi"}},
    ],
)
def test_a_message_that_is_addressed_to_the_bot_has_its_words(payload: dict[str, Any]) -> None:
    event = parsed(payload)
    assert (event.text, event.source.user_id, event.source.user_name) == ("hello", "1", "ann")
    assert event.source.chat_type == ("group" if "guild_id" in payload else "dm")


def test_a_command_may_follow_the_mention_and_people_have_their_names() -> None:
    assert parsed(NAMED | {"content": "<@!900> /status"}).kind == "command"
    people = [{"id": "900", "username": "hermes"}, {"id": "3", "username": "bob"}]
    assert parsed(NAMED | {"content": "<@900> ask <@3>", "mentions": people}).text == "ask @bob"


def test_a_message_in_a_thread_carries_the_thread_in_its_ids() -> None:
    thread = Channel("77", type=11, parent_id="42", name="plans")
    payload = NAMED | {"channel_id": "77", "type": 19, "message_reference": {"message_id": "6"}}
    event = parsed(payload, channel=thread)
    assert (event.source.chat_id, event.source.thread_id) == ("42", "77")
    assert (event.message_id, event.reply_to) == ("77/7", "77/6")
    assert place_of("42", "77/7") == ("77", "7")
    assert place_of("42", "7") == ("42", "7")


def test_a_forwarded_text_is_no_command() -> None:
    forwarded = DIRECT | {
        "content": "",
        "message_reference": {"type": 1, "message_id": "3"},
        "message_snapshots": [{"message": {"content": "/stop"}}],
    }
    event = parsed(forwarded)
    assert (event.kind, event.text) == ("text", "[Forwarded]\n/stop")


def test_files_have_their_kinds_and_an_edit_has_the_time_of_the_edit() -> None:
    files = [
        {"id": "1", "filename": "a.png", "content_type": "image/png", "size": 3},
        {"id": "2", "filename": "b.bin"},
    ]
    event = parsed(DIRECT | {"attachments": files})
    assert [(one.kind, one.name, one.file_id) for one in event.attachments] == [
        ("photo", "a.png", "42/7/1"),
        ("document", "b.bin", "42/7/2"),
    ]
    edit = DIRECT | {
        "timestamp": "2026-01-01T00:00:00+00:00",
        "edited_timestamp": "2026-01-02T00:00:00+00:00",
    }
    assert parsed(edit, edited=True).sent_at == 1767312000
    voice = parsed(DIRECT | {"flags": 8192, "attachments": [{"id": "1", "content_type": "audio/ogg"}]})
    assert voice.attachments[0].kind == "voice"


def test_a_press_and_a_slash_command_are_events_of_the_person() -> None:
    base = {"id": "5", "channel_id": "42", "token": "secret", "guild_id": "5"}
    member = {"nick": "Annie", "user": {"id": "1", "username": "ann"}}
    press = base | {"type": 3, "data": {"custom_id": "a:1:once"}, "member": member, "message": {"id": "9"}}
    command = base | {
        "type": 2,
        "data": {"name": "queue", "options": [{"name": "text", "value": "later"}]},
        "member": member,
    }
    events = []
    for payload in (press, command):
        read = read_interaction(payload, BOT)
        assert isinstance(read, Interaction)
        events.append(event_of_interaction(read, BOT, Channel("42")))
    assert [(one.kind, one.text, one.reply_to, one.source.user_name) for one in events] == [
        ("callback", "a:1:once", "9", "Annie"),
        ("command", "/queue later", None, "Annie"),
    ]


@given(JSON)
def test_any_json_is_an_event_or_nothing(payload: object) -> None:
    for read in (read_message(payload, BOT), read_interaction(payload, BOT)):
        if isinstance(read, Message):
            event_of_message(read, BOT, Channel("42"), edited=False)
        if isinstance(read, Interaction):
            event_of_interaction(read, BOT, Channel("42"))


def test_an_unreadable_payload_keeps_its_content_without_the_token_of_the_interaction() -> None:
    event = read_interaction({"id": 5, "type": "x", "token": "secret"}, BOT)
    assert isinstance(event, MessageEvent)
    assert (event.kind, "secret" in event.text) == ("unreadable", False)
