"""Sources, events and the keys that are made of them."""

import json
from dataclasses import FrozenInstanceError, fields, replace
from itertools import product
from typing import Any, TypedDict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_trio.base.errors import InvalidId
from hermes_trio.base.ids import session_key
from hermes_trio.base.messages import (
    Attachment,
    ChatType,
    HomeChannel,
    MessageEvent,
    SessionSource,
    build_session_key,
    is_shared,
)

DM = SessionSource("telegram", "42", user_id="42")
GROUP = SessionSource("telegram", "-100", "group", user_id="7")
TOPIC = replace(GROUP, thread_id="5")


class Isolation(TypedDict, total=False):
    group_sessions_per_user: bool
    thread_sessions_per_user: bool


APART = Isolation(group_sessions_per_user=True, thread_sessions_per_user=True)
TOGETHER = Isolation(group_sessions_per_user=False, thread_sessions_per_user=False)


# --- keys ---


@pytest.mark.parametrize(
    ("source", "key"),
    [
        (DM, "agent:main:telegram:dm:42"),
        (SessionSource("api", "0a1b"), "agent:main:api:dm:0a1b"),
        (replace(DM, thread_id="5"), "agent:main:telegram:dm:42:5"),
        (replace(DM, chat_id=""), "agent:main:telegram:dm:42"),
        (replace(DM, chat_id="", user_id_alt="u-1"), "agent:main:telegram:dm:u-1"),
        (SessionSource("sms", "", thread_id="5"), "agent:main:sms:dm::5"),
        (SessionSource("sms", ""), "agent:main:sms:dm"),
        (replace(DM, account="second"), "agent:main:telegram@second:dm:42"),
        (GROUP, "agent:main:telegram:group:-100:7"),
        (replace(GROUP, user_id_alt="u-1"), "agent:main:telegram:group:-100:u-1"),
        (replace(GROUP, user_id=None), "agent:main:telegram:group:-100"),
        (TOPIC, "agent:main:telegram:group:-100:5:"),
        (SessionSource("slack", "C1", "channel", user_id="U1"), "agent:main:slack:channel:C1:U1"),
        (SessionSource("discord", "9", "thread", "7"), "agent:main:discord:thread:9"),
        (
            SessionSource("matrix", "!room:server.org", "group", user_id="@ann:server.org"),
            "agent:main:matrix:group:!room%3Aserver.org:@ann%3Aserver.org",
        ),
        (
            SessionSource("googlechat", "spaces/AAA", "group"),
            "agent:main:googlechat:group:spaces/AAA",
        ),
    ],
)
def test_a_session_key_names_the_place_of_a_conversation(source: SessionSource, key: str) -> None:
    assert build_session_key(source) == key


@pytest.mark.parametrize(
    ("source", "isolation", "key"),
    [
        (GROUP, APART, "agent:main:telegram:group:-100:7"),
        (GROUP, TOGETHER, "agent:main:telegram:group:-100"),
        (TOPIC, APART, "agent:main:telegram:group:-100:5:7"),
        (TOPIC, TOGETHER, "agent:main:telegram:group:-100:5:"),
        (DM, APART, "agent:main:telegram:dm:42"),
        (DM, TOGETHER, "agent:main:telegram:dm:42"),
    ],
)
def test_isolation_decides_whether_the_person_is_part_of_the_key(
    source: SessionSource, isolation: Isolation, key: str
) -> None:
    assert build_session_key(source, **isolation) == key


def test_a_namespace_keeps_profiles_apart() -> None:
    assert build_session_key(DM, namespace="work") == "agent:work:telegram:dm:42"


def test_a_topic_and_a_person_of_the_same_number_are_two_conversations() -> None:
    topic = replace(GROUP, thread_id="7", user_id="1")
    assert build_session_key(topic) != build_session_key(replace(GROUP, user_id="7"))


@pytest.mark.parametrize(
    "better_known",
    [
        replace(TOPIC, user_name="Ann"),
        replace(TOPIC, chat_name="Cooks"),
        replace(TOPIC, scope_id="guild-1"),
    ],
)
def test_names_and_scopes_are_not_part_of_the_key(better_known: SessionSource) -> None:
    assert build_session_key(better_known) == build_session_key(TOPIC)


CHAT_TYPES: tuple[ChatType, ...] = ("dm", "group", "channel", "thread")

# Separators, escapes and refused parts of a key, each also in its escaped form.
tricky = st.sampled_from(["", "a", "b", "a:b", ":", "%3A", "a@b", "%40", "..", "%2E%2E", "a:", ":a"])
sources = st.builds(
    SessionSource,
    platform=tricky,
    chat_id=tricky,
    chat_type=st.sampled_from(CHAT_TYPES),
    user_id=st.none() | tricky,
    user_id_alt=st.none() | tricky,
    thread_id=st.none() | tricky,
    account=st.just("main") | tricky,
)


def route(source: SessionSource, isolation: Isolation) -> tuple[object, ...]:
    """Return the conversation that a source belongs to, computed without its key."""
    person = source.user_id_alt or source.user_id or ""
    thread = source.thread_id or ""
    address = (source.platform, source.account, source.chat_type)
    if source.chat_type == "dm":
        return (*address, source.chat_id or person, thread)
    in_thread = thread or source.chat_type == "thread"
    threads, groups = isolation["thread_sessions_per_user"], isolation["group_sessions_per_user"]
    apart = threads if in_thread else groups
    return (*address, source.chat_id, thread, person if apart else "")


@given(
    sources,
    st.dictionaries(st.sampled_from(["platform", "account", "chat_id", "thread_id", "user_id"]), tricky),
    st.builds(
        Isolation,
        group_sessions_per_user=st.booleans(),
        thread_sessions_per_user=st.booleans(),
    ),
)
def test_two_sources_have_one_key_exactly_when_they_mean_one_conversation(
    one: SessionSource, changes: dict[str, Any], isolation: Isolation
) -> None:
    other = replace(one, **changes)
    same_key = build_session_key(one, **isolation) == build_session_key(other, **isolation)
    assert same_key == (route(one, isolation) == route(other, isolation))


def test_no_two_tricky_chats_have_the_same_key() -> None:
    ids = ["", "a", "a:b", ":", "%3A", "a@b", "a%40b", "..", "%2E%2E"]
    conversations = {
        (route(source, APART), build_session_key(source, **APART))
        for platform, account in product(["x", "x@a", "x%40a"], ["main", "a", "a@a"])
        for chat_type in CHAT_TYPES
        for chat, thread, user in product(ids, repeat=3)
        for source in [SessionSource(platform, chat, chat_type, user, thread_id=thread, account=account)]
    }
    routes, keys = zip(*conversations, strict=True)
    assert len(conversations) == len(set(routes)) == len(set(keys))


@given(st.text(max_size=12), st.text(max_size=12), st.text(max_size=12))
def test_every_id_of_a_platform_makes_a_valid_key(chat: str, thread: str, user: str) -> None:
    source = SessionSource("irc", chat, "group", user_id=user, thread_id=thread)
    key = build_session_key(source, **APART)
    assert session_key(key) == key


def test_a_key_that_is_too_long_is_refused() -> None:
    with pytest.raises(InvalidId):
        build_session_key(replace(DM, chat_id="x" * 600))


@pytest.mark.parametrize(
    ("source", "isolation", "shared"),
    [
        (DM, APART, False),
        (DM, TOGETHER, False),
        (replace(DM, thread_id="5"), TOGETHER, False),
        (GROUP, APART, False),
        (GROUP, TOGETHER, True),
        (TOPIC, APART, False),
        (TOPIC, TOGETHER, True),
        (TOPIC, {}, True),
        (GROUP, {}, False),
        (replace(GROUP, chat_type="channel"), {}, False),
        (replace(GROUP, chat_type="thread"), {}, True),
        (replace(GROUP, user_id=None), APART, True),
    ],
)
def test_a_session_is_shared_when_several_people_talk_in_it(
    source: SessionSource, isolation: Isolation, shared: bool
) -> None:
    assert is_shared(source, **isolation) is shared


# --- plain dicts ---

whole_sources = st.builds(SessionSource, **{f.name: ... for f in fields(SessionSource)})
whole_events = st.builds(
    MessageEvent,
    **{f.name: ... for f in fields(MessageEvent)}
    | {
        "source": whole_sources,
        "sent_at": st.none() | st.floats(allow_nan=False, allow_infinity=False),
        "attachments": st.lists(
            st.builds(Attachment, **{f.name: ... for f in fields(Attachment)}), max_size=2
        ).map(tuple),
    },
)


@given(whole_events)
def test_an_event_is_read_back_from_json_as_it_was(event: MessageEvent) -> None:
    assert MessageEvent.from_dict(json.loads(json.dumps(event.to_dict()))) == event


@given(whole_sources)
def test_a_source_is_read_back_from_json_as_it_was(source: SessionSource) -> None:
    assert SessionSource.from_dict(json.loads(json.dumps(source.to_dict()))) == source


def test_a_field_missing_in_an_older_record_has_its_default() -> None:
    assert SessionSource.from_dict({"platform": "telegram", "chat_id": "42"}) == SessionSource(
        platform="telegram", chat_id="42", chat_type="dm", account="main"
    )
    source = {"platform": "telegram", "chat_id": "42"}
    assert MessageEvent.from_dict({"source": source}).kind == "text"


def test_an_unknown_field_of_a_newer_record_is_ignored() -> None:
    newer = {**DM.to_dict(), "mood": "good"}
    assert SessionSource.from_dict(newer) == DM
    event = MessageEvent(DM, "hi", "1")
    assert MessageEvent.from_dict({**event.to_dict(), "mood": 1, "source": newer}) == event


@pytest.mark.parametrize(
    ("written", "scope"),
    [
        ({"scope_id": "new", "guild_id": "old"}, "new"),
        ({"guild_id": "old"}, "old"),
        ({"scope_id": None, "guild_id": "old"}, "old"),
        ({}, None),
    ],
)
def test_a_scope_is_read_by_either_name(written: dict[str, str | None], scope: str | None) -> None:
    source = SessionSource.from_dict({"platform": "discord", "chat_id": "1", **written})
    assert source.scope_id == scope
    assert (source.to_dict()["scope_id"], source.to_dict()["guild_id"]) == (scope, scope)


@pytest.mark.parametrize(("theirs", "ours"), [("forum", "group"), ("webhook", "channel")])
def test_chat_types_of_the_original_are_mapped_to_ours(theirs: str, ours: str) -> None:
    read = SessionSource.from_dict({"platform": "telegram", "chat_id": "1", "chat_type": theirs})
    assert read.chat_type == ours


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        (None, "session source.*object.*null"),
        ([], "session source.*object.*array"),
        ({"chat_id": "42"}, "session source.*platform"),
        ({"platform": "telegram"}, "session source.*chat_id"),
        ({"platform": "telegram", "chat_id": 42}, "session source.*str.*int.*chat_id"),
        ({"platform": "telegram", "chat_id": "1", "chat_type": "cave"}, "cave.*chat_type"),
        ({"platform": "telegram", "chat_id": "1", "chat_type": ["dm"]}, "chat_type"),
        ({"platform": "telegram", "chat_id": "1", "account": None}, "account"),
    ],
)
def test_an_invalid_source_is_refused_with_the_reason(data: object, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        SessionSource.from_dict(data)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"source": None}, "session source"),
        ({"source": {"platform": "telegram"}}, "session source.*chat_id"),
        ({"text": None}, "message event.*text"),
        ({"kind": "song"}, "song.*kind"),
        ({"attachments": [{"kind": "smell"}]}, "smell.*attachments"),
        ({"sent_at": "yesterday"}, "sent_at"),
    ],
)
def test_an_invalid_event_is_refused_with_the_reason(change: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        MessageEvent.from_dict({**MessageEvent(DM, "hi").to_dict(), **change})


@pytest.mark.parametrize("data", [None, [], {}, "text"])
def test_an_event_needs_a_source(data: object) -> None:
    with pytest.raises(ValueError, match="message event"):
        MessageEvent.from_dict(data)


# --- one message, one row ---

EVENT = MessageEvent(DM, "hello", "17", sent_at=100.0)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (EVENT, EVENT, True),
        (EVENT, replace(EVENT, text="seen again", sent_at=101.0), True),
        (EVENT, replace(EVENT, message_id="18"), False),
        (EVENT, replace(EVENT, edited=True), False),
        (replace(EVENT, edited=True), replace(EVENT, edited=True), True),
        (replace(EVENT, edited=True), replace(EVENT, edited=True, sent_at=101.0), False),
        (EVENT, replace(EVENT, message_id=None, idempotency_key="17"), False),
        (EVENT, replace(EVENT, idempotency_key="again"), True),
    ],
)
def test_a_message_seen_twice_has_the_same_key(one: MessageEvent, other: MessageEvent, same: bool) -> None:
    assert (one.message_key == other.message_key) is same


def test_a_repeated_request_has_the_same_key_and_others_have_none() -> None:
    request = MessageEvent(SessionSource("api", "s1"), "hi", idempotency_key="order-1")
    assert request.message_key == replace(request, text="hi!").message_key
    assert request.message_key != replace(request, idempotency_key="order-2").message_key
    assert replace(request, idempotency_key=None).message_key is None


@pytest.mark.parametrize(
    ("value", "field"),
    [(DM, "chat_id"), (EVENT, "text"), (HomeChannel("telegram", "1"), "chat_id")],
)
def test_values_do_not_change(value: object, field: str) -> None:
    with pytest.raises(FrozenInstanceError):
        setattr(value, field, "other")


def test_half_a_character_is_stored_as_unreadable() -> None:
    half = "\ud83d"
    event = MessageEvent(SessionSource("telegram", "42", user_name=f"Kim {half}"), f"hello {half}!")
    assert event.text == "hello \N{REPLACEMENT CHARACTER}!"
    assert event.source.user_name == "Kim \N{REPLACEMENT CHARACTER}"
    assert MessageEvent.from_dict(json.loads(json.dumps(event.to_dict()))) == event
    event.text.encode()


def test_a_whole_emoji_is_left_alone() -> None:
    assert MessageEvent(SessionSource("telegram", "42"), "\N{GRINNING FACE}").text == "\N{GRINNING FACE}"
