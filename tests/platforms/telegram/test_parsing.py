"""Conversion of updates to events: every JSON value is an event or is ignored, and none raises an error."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hermes_platforms.telegram.parsing import Bot, parse, update_id_of
from hermes_platforms.telegram.testing.bot_api_entities import utf16_length
from hermes_platforms.telegram.testing.bot_api_updates import entities_of, update_of
from hermes_trio.base.messages import Attachment, MessageEvent, SessionSource, build_session_key

BOT = Bot(99, "hermes_bot")
PRIVATE = {"id": 42, "type": "private", "first_name": "Kim"}
GROUP = {"id": -100, "type": "supergroup", "title": "Friends"}
FORUM = {**GROUP, "is_forum": True}
KIM = {"id": 7, "is_bot": False, "first_name": "Kim", "last_name": "Lee"}
MINE = {"message_id": 4, "date": 1, "chat": GROUP, "from": {"id": 99, "is_bot": True}, "text": "Hm?"}

bounded = settings(max_examples=300)


def update(**message: Any) -> dict[str, Any]:
    if "text" in message and "entities" not in message:
        message["entities"] = entities_of(message["text"])
    return {"update_id": 1, "message": {"message_id": 5, "date": 1000, "from": KIM, **message}}


def said(**message: Any) -> MessageEvent:
    event = parse(update(**message), BOT)
    assert isinstance(event, MessageEvent)
    return event


def is_ours(**message: Any) -> bool:
    return parse(update(chat=GROUP, **message), BOT) is not None


def test_a_direct_message_becomes_an_event() -> None:
    event = said(chat=PRIVATE, text="hello")
    source = event.source
    assert (source.platform, source.chat_id, source.chat_type) == ("telegram", "42", "dm")
    assert (source.user_id, source.user_name, source.thread_id) == ("7", "Kim Lee", None)
    assert (event.text, event.message_id, event.sent_at, event.kind) == ("hello", "5", 1000.0, "text")


def test_a_topic_of_a_direct_chat_is_a_conversation_of_its_own() -> None:
    event = said(chat=PRIVATE, text="hello", message_thread_id=8, is_topic_message=True)
    assert build_session_key(event.source) == "agent:main:telegram:dm:42:8"


def test_a_person_who_writes_to_a_channel_has_a_conversation_there() -> None:
    chat = {"id": -100, "type": "supergroup", "is_direct_messages": True, "is_forum": True}
    event = said(chat=chat, text="hello", direct_messages_topic={"topic_id": 8, "user": KIM})
    assert build_session_key(event.source) == "agent:main:telegram:dm:-100:direct-8"


def test_a_reply_in_a_group_without_topics_has_a_thread_id_and_is_in_no_topic() -> None:
    assert said(chat=GROUP, text="@hermes_bot hm", message_thread_id=8).source.thread_id is None


@pytest.mark.parametrize(
    ("fields", "thread_id"), [({"message_thread_id": 8, "is_topic_message": True}, "8"), ({}, "1")]
)
def test_a_message_of_a_forum_is_in_its_topic_or_in_the_general_one(
    fields: dict[str, Any], thread_id: str
) -> None:
    assert said(chat=FORUM, text="@hermes_bot hm", **fields).source.thread_id == thread_id


def test_each_person_of_a_group_has_a_session_and_a_topic_has_one_for_all() -> None:
    apart = said(chat=GROUP, text="@hermes_bot hm").source
    together = said(chat=FORUM, text="@hermes_bot hm").source
    assert build_session_key(apart) == "agent:main:telegram:group:-100:7"
    assert build_session_key(together) == "agent:main:telegram:group:-100:1:"


@pytest.mark.parametrize(
    ("message", "ours"),
    [
        ({"text": "hello all"}, False),
        ({"text": "hello @Hermes_Bot"}, True),
        ({"text": "hello @hermes_bot2"}, False),
        ({"text": "mail to me@hermes_bot.com", "entities": []}, False),
        ({"text": "/status@hermes_bot"}, True),
        ({"text": "/status"}, False),
        ({"text": "/status@other_bot ask @hermes_bot"}, False),
        ({"text": "really?", "reply_to_message": MINE}, True),
        ({"text": "really?", "reply_to_message": {**MINE, "from": KIM}}, False),
        ({"text": "in a topic", "reply_to_message": {**MINE, "forum_topic_created": {"name": "T"}}}, False),
        ({"caption": "look", "photo": [{"file_id": "p"}]}, False),
        (
            {
                "caption": "😀 @hermes_bot",
                "caption_entities": [{"type": "mention", "offset": 3, "length": 11}],
                "photo": [{"file_id": "p"}],
            },
            True,
        ),
        (
            {
                "text": "hey you",
                "entities": [
                    {"type": "text_mention", "offset": 4, "length": 3, "user": {"id": 99, "is_bot": True}}
                ],
            },
            True,
        ),
    ],
)
def test_a_group_message_is_accepted_only_if_it_addresses_the_bot(
    message: dict[str, Any], ours: bool
) -> None:
    assert is_ours(**message) is ours


def test_all_group_messages_are_accepted_without_required_mentions_except_commands_for_another_bot() -> None:
    listening = Bot(99, "hermes_bot", require_mention=False)
    assert parse(update(chat=GROUP, text="hello all"), listening) is not None
    assert parse(update(chat=GROUP, text="/start@other_bot"), listening) is None


@pytest.mark.parametrize("text", ["/stop@other_bot", "/stop@other_bot now", "@hermes_bot /stop@other_bot"])
def test_a_command_for_another_bot_is_ignored(text: str) -> None:
    assert parse(update(chat=PRIVATE, text=text), BOT) is None or text.startswith("@")
    assert parse(update(chat=GROUP, text=text), BOT) is None
    assert parse(update(chat=GROUP, text=text, reply_to_message=MINE), BOT) is None


def test_a_command_that_names_the_bot_is_accepted_in_every_chat() -> None:
    for chat in (PRIVATE, GROUP):
        event = said(chat=chat, text="/stop@Hermes_Bot")
        assert (event.text, event.kind) == ("/stop@Hermes_Bot", "command")


@pytest.mark.parametrize("text", ["@hermes_bot /status", "@Hermes_Bot, /status", "@hermes_bot: /status"])
def test_a_command_may_follow_the_mention(text: str) -> None:
    event = said(chat=GROUP, text=text)
    assert (event.text, event.kind) == ("/status", "command")


def test_a_mention_without_text_stays() -> None:
    assert said(chat=GROUP, text="@hermes_bot").text == "@hermes_bot"


def test_an_edit_is_another_message_with_the_time_of_its_change() -> None:
    message = update(chat=PRIVATE, text="hello!", edit_date=2000)["message"]
    event = parse({"update_id": 2, "edited_message": message}, BOT)
    assert isinstance(event, MessageEvent)
    assert (event.edited, event.sent_at) == (True, 2000.0)
    assert event.message_key != said(chat=PRIVATE, text="hello").message_key


def test_a_live_location_is_one_event() -> None:
    where = update(chat=PRIVATE, location={"latitude": 1.5, "longitude": 2})["message"]
    assert parse({"update_id": 1, "message": where}, BOT) is not None
    assert parse({"update_id": 2, "edited_message": {**where, "edit_date": 2000}}, BOT) is None


def test_a_reply_has_the_quoted_text() -> None:
    quoted = {**MINE, "text": "A long story."}
    event = said(chat=PRIVATE, text="go on", reply_to_message=quoted)
    assert (event.reply_to, event.reply_to_text) == ("4", "A long story.")
    event = said(chat=PRIVATE, text="this?", reply_to_message=quoted, quote={"text": "story"})
    assert event.reply_to_text == "story"
    silent = {"message_id": 4, "date": 1, "chat": PRIVATE, "from": KIM}
    for kind, media in (("photo", [{"file_id": "p"}]), ("voice", {"file_id": "v"}), ("poll", {})):
        event = said(chat=PRIVATE, text="what is this?", reply_to_message={**silent, kind: media})
        assert event.reply_to_text == f"({kind})"
    assert said(chat=PRIVATE, text="hm", reply_to_message=silent).reply_to_text is None


def test_a_rich_message_has_the_words_of_its_blocks() -> None:
    rich = {
        "blocks": [
            {"type": "heading", "text": "Prices", "size": 1},
            {"type": "paragraph", "text": ["Tea ", {"type": "bold", "text": ["and ", "cake"]}]},
            {"type": "list", "items": [{"label": "•", "blocks": [{"type": "paragraph", "text": "one"}]}]},
            {"type": "table", "cells": [[{"text": "Tea"}, {"text": "4"}], [{"text": "Cake"}, {}]]},
            {"type": "photo", "photo": []},
        ]
    }
    words = "Prices\nTea and cake\none\nTea\t4\nCake\t"
    assert said(chat=PRIVATE, rich_message=rich).text == words
    quoted = {**MINE, "rich_message": rich}
    del quoted["text"]
    assert said(chat=PRIVATE, text="Why?", reply_to_message=quoted).reply_to_text == words


def test_a_stopped_draft_is_an_event_of_the_person_in_the_topic() -> None:
    stopped = {"chat": PRIVATE, "draft_id": 7, "message_thread_id": 8}
    event = parse({"update_id": 3, "stopped_message_generation": stopped}, BOT)
    assert isinstance(event, MessageEvent)
    assert (event.kind, event.text, event.message_key) == ("callback", "stopped-draft:7", "id:update:3")
    assert build_session_key(event.source) == "agent:main:telegram:dm:42:8"
    assert event.source.participant == "42"


def test_a_reply_to_another_chat_has_the_selected_text() -> None:
    event = said(chat=PRIVATE, text="this?", external_reply={"origin": {}}, quote={"text": "a story"})
    assert (event.reply_to, event.reply_to_text) == (None, "a story")


@pytest.mark.parametrize(
    ("origin", "name"),
    [
        ({"type": "user", "sender_user": {"id": 8, "first_name": "Ann]\n[Kim"}}, "Ann) (Kim"),
        ({"type": "hidden_user", "sender_user_name": "Ann"}, "Ann"),
        ({"type": "chat", "sender_chat": GROUP}, "Friends"),
        ({"type": "channel", "chat": {"id": -200, "type": "channel", "title": "News"}}, "News"),
        ({"type": "of the future"}, "somebody"),
    ],
)
def test_a_forwarded_message_names_its_author_and_is_no_command(origin: dict[str, Any], name: str) -> None:
    event = said(chat=PRIVATE, text="/stop", forward_origin={"date": 1, **origin})
    assert (event.text, event.kind) == (f"[Forwarded from {name}]\n/stop", "text")
    event = said(chat=PRIVATE, photo=[{"file_id": "p"}], forward_origin={"date": 1, **origin})
    assert (event.text, len(event.attachments)) == (f"[Forwarded from {name}]", 1)


def test_an_edit_without_a_date_is_no_event() -> None:
    unchanged = update(chat=PRIVATE, text="see https://example.org")["message"]
    assert parse({"update_id": 2, "edited_message": unchanged}, BOT) is None


@pytest.mark.parametrize(
    ("fields", "file"),
    [
        (
            {"photo": [{"file_id": "s", "width": 90}, {"file_id": "l", "width": 900, "file_size": 5}]},
            Attachment("photo", file_id="l", size=5),
        ),
        (
            {"document": {"file_id": "d", "file_name": "a.pdf", "mime_type": "application/pdf"}},
            Attachment("document", name="a.pdf", mime_type="application/pdf", file_id="d"),
        ),
        (
            {"voice": {"file_id": "v", "mime_type": "audio/ogg"}},
            Attachment("voice", mime_type="audio/ogg", file_id="v"),
        ),
        ({"audio": {"file_id": "a"}}, Attachment("audio", file_id="a")),
        ({"video_note": {"file_id": "n"}}, Attachment("video", file_id="n")),
        ({"animation": {"file_id": "g"}, "document": {"file_id": "g"}}, Attachment("video", file_id="g")),
        ({"sticker": {"file_id": "k", "emoji": "👍"}}, Attachment("sticker", file_id="k")),
    ],
)
def test_a_file_becomes_an_attachment_with_its_id(fields: dict[str, Any], file: Attachment) -> None:
    event = said(chat=PRIVATE, caption="look", **fields)
    assert (event.text, event.attachments) == ("look", (file,))


def test_a_message_without_text_is_described() -> None:
    assert said(chat=PRIVATE, sticker={"file_id": "k", "emoji": "👍"}).text == "👍"
    assert said(chat=PRIVATE, location={"latitude": 1.5, "longitude": 2}).text == "Location: 1.5, 2.0"
    contact = {"phone_number": "+1", "first_name": "Kim"}
    assert said(chat=PRIVATE, contact=contact).text == "Contact: Kim, +1"
    place = {"location": {"latitude": 1.5, "longitude": 2}, "title": "Café", "address": "Main Street 1"}
    venue = said(chat=PRIVATE, location=place["location"], venue=place)
    assert venue.text == "Location: 1.5, 2.0 (Café, Main Street 1)"
    poll = {"question": "Tea?", "options": [{"text": "Yes", "voter_count": 0}, {"text": "No"}]}
    assert said(chat=PRIVATE, poll=poll).text == "Poll: Tea?\n- Yes\n- No"
    assert said(chat=PRIVATE, dice={"emoji": "🎲", "value": 4}).text == "🎲 4"


@pytest.mark.parametrize("kind", ["checklist", "game", "giveaway", "invoice", "paid_media", "story"])
def test_unsupported_content_is_mentioned(kind: str) -> None:
    event = said(chat=PRIVATE, **{kind: {"anything": 1}})
    assert event.text == f"[Sent along: {kind.replace('_', ' ')}; it cannot be seen from here]"


@pytest.mark.parametrize(
    "message",
    [
        {"chat": PRIVATE, "pinned_message": {"message_id": 1}},
        {"chat": GROUP, "new_chat_members": [KIM]},
        {"chat": GROUP, "text": "@hermes_bot", "from": {"id": 8, "is_bot": True, "first_name": "Robot"}},
        {"chat": GROUP, "text": "@hermes_bot", "is_automatic_forward": True},
        {"chat": {"id": -200, "type": "channel"}, "text": "@hermes_bot"},
    ],
)
def test_a_message_that_is_not_for_the_bot_is_no_event(message: dict[str, Any]) -> None:
    assert parse(update(**message), BOT) is None


def test_an_anonymous_admin_has_the_id_of_the_group() -> None:
    anonymous = {"id": 1087968824, "is_bot": True, "first_name": "Group"}
    event = said(chat=GROUP, text="@hermes_bot hm", sender_chat=GROUP, **{"from": anonymous})
    assert (event.source.user_id, event.source.user_name) == ("-100", "Friends")


@pytest.mark.parametrize(
    "odd",
    [
        {"update_id": 3, "message": "hello"},
        {"update_id": 3, "message": {"message_id": 5}},
        {"update_id": 3, "message": {"message_id": "5", "date": 1, "chat": PRIVATE, "text": "x"}},
        {"update_id": 3, "message": {"message_id": 5, "date": 1, "chat": PRIVATE, "text": {"x": 1}}},
        {"update_id": 3, "message": {"message_id": 5, "date": 10**400, "chat": PRIVATE, "text": "x"}},
    ],
)
def test_an_invalid_update_is_an_unreadable_event_with_the_reason(odd: dict[str, Any]) -> None:
    unreadable = parse(odd, BOT)
    assert isinstance(unreadable, MessageEvent)
    assert unreadable.kind == "unreadable"
    assert "$.message" in unreadable.text.partition("\n")[0]
    assert update_id_of(odd) == 3


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
FIELDS = [
    *("message_id", "date", "chat", "from", "text", "entities", "caption", "caption_entities", "photo"),
    *(
        "voice",
        "reply_to_message",
        "quote",
        "message_thread_id",
        "is_topic_message",
        "sender_chat",
        "sticker",
        "rich_message",
    ),
]


@bounded
@given(JSON)
def test_parsing_any_json_raises_nothing(update: object) -> None:
    parse(update, BOT)
    update_id_of(update)


@bounded
@given(st.dictionaries(st.sampled_from(FIELDS), JSON), st.sampled_from([PRIVATE, GROUP, FORUM]))
def test_parsing_a_nearly_valid_update_raises_nothing(fields: dict[str, Any], chat: dict[str, Any]) -> None:
    near = update(chat=chat, text="@hermes_bot hm")
    near["message"].update(fields)
    assert isinstance(parse(near, BOT), MessageEvent | None)


@bounded
@given(
    st.text(alphabet=st.characters(), max_size=20),
    st.lists(st.tuples(st.integers(-50, 50), st.integers(-50, 50)), max_size=3),
)
def test_parsing_entities_outside_of_the_text_raises_nothing(
    text: str, places: list[tuple[int, int]]
) -> None:
    entities = [{"type": "mention", "offset": at, "length": length} for at, length in places]
    assert parse(update(chat=GROUP, text=text, entities=entities), BOT) is None


@bounded
@given(st.text(min_size=1, max_size=50), st.sampled_from(["1", "5"]))
def test_a_simulated_message_is_parsed_to_the_same_event(text: str, thread_id: str) -> None:
    source = SessionSource("telegram", "42", user_id="42", user_name="Kim")
    meant = MessageEvent(source, text, message_id="8", sent_at=5.0, kind="text")
    heard = parse(update_of(3, meant, 5), BOT)
    assert isinstance(heard, MessageEvent)
    assert (heard.text, heard.source) == (meant.text, source)
    assert utf16_length(heard.text) == utf16_length(text)
