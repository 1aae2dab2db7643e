"""What Slack delivers, and the events that it becomes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_platforms.slack.parsing import (
    App,
    event_of,
    is_addressed,
    read_envelope,
    readable,
)
from hermes_platforms.slack.payload import Message
from hermes_trio.platform import MessageEvent

APP = App("UHERMES", "T1", commands=frozenset({"status", "stop"}))
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["type", "event", "ts", "channel", "user", "text", "files", "message", "actions", "command"]
            ),
            inner,
            max_size=5,
        )
    ),
    max_leaves=12,
)


def delivered(**event: Any) -> dict[str, Any]:
    whole = {"type": "message", "channel": "C1", "channel_type": "channel", "user": "U1", "ts": "17.5"}
    return {"type": "event_callback", "team_id": "T1", "event_id": "Ev1", "event": whole | event}


def event(threads: tuple[tuple[str, str], ...] = (), app: App = APP, **fields: Any) -> MessageEvent | None:
    read = read_envelope("events_api", delivered(**fields), app)
    assert isinstance(read, tuple)
    message, team = read
    return event_of(message, app, team, {"U1": "Ann"}) if is_addressed(message, app, threads) else None


@given(st.sampled_from(["events_api", "interactive", "slash_commands", "hello"]), JSON)
def test_no_payload_raises(kind: str, payload: object) -> None:
    read = read_envelope(kind, payload, APP)
    assert read is None or isinstance(read, MessageEvent) or isinstance(read[0], Message)


def test_a_payload_that_cannot_be_read_is_kept_without_its_token() -> None:
    payload = {"event_id": "Ev9", "token": "secret", "event": {"type": "message", "ts": 5}}
    read = read_envelope("events_api", payload, APP)
    assert isinstance(read, MessageEvent)
    assert (read.kind, read.message_id, "secret" in read.text) == ("unreadable", "payload:Ev9", False)


@pytest.mark.parametrize(
    "fields",
    [
        {"text": "hello"},
        {"text": "<@UHERMES> hello", "bot_id": "B1"},
        {"text": "<@UHERMES> hello", "user": "UHERMES"},
        {"text": "<@UHERMES> hello", "subtype": "message_changed"},
        {"text": "<@UHERMES> has joined", "subtype": "channel_join"},
        {"text": "", "channel_type": "im"},
        {"text": "hello", "thread_ts": "9.1", "parent_user_id": "U2"},
    ],
)
def test_a_message_for_somebody_else_is_no_event(fields: dict[str, Any]) -> None:
    assert event(**fields) is None


def test_a_mention_in_a_channel_begins_a_thread_and_its_command_follows_the_mention() -> None:
    found = event(text="<@UHERMES>, !status now")
    assert found is not None
    assert (found.text, found.kind, found.message_id) == ("/status now", "command", "17.5")
    source = found.source
    assert (source.chat_id, source.chat_type, source.thread_id) == ("C1", "group", "17.5")
    assert (source.user_id, source.user_name, source.scope_id) == ("U1", "Ann", "T1")


def test_answers_stay_in_the_channel_if_they_go_into_no_thread() -> None:
    found = event(app=App("UHERMES", reply_in_thread=False), text="<@UHERMES> hello")
    assert found is not None
    assert found.source.thread_id is None


@pytest.mark.parametrize("fields", [{"parent_user_id": "UHERMES"}, {"text": "really <@UHERMES>?"}, {}])
def test_a_thread_in_which_the_app_takes_part_needs_no_mention(fields: dict[str, Any]) -> None:
    threads = () if fields else (("C1", "9.1"),)
    found = event(threads, **{"text": "and now?", "thread_ts": "9.1", **fields})
    assert found is not None
    assert found.source.thread_id == "9.1"


def test_a_direct_message_has_no_thread_and_needs_no_mention() -> None:
    found = event(channel="D1", channel_type="im", text="!bang is no command")
    assert found is not None
    assert (found.source.chat_type, found.source.thread_id) == ("dm", None)
    assert (found.kind, found.text) == ("text", "!bang is no command")


def test_files_keep_their_kinds() -> None:
    files = [
        {"id": "F1", "name": "a.png", "mimetype": "image/png", "size": 5},
        {"id": "F2", "name": "clip.webm", "mimetype": "audio/webm", "subtype": "slack_audio"},
    ]
    found = event(channel_type="im", subtype="file_share", files=files)
    assert found is not None
    assert [(one.kind, one.name, one.file_id) for one in found.attachments] == [
        ("photo", "a.png", "F1"),
        ("voice", "clip.webm", "F2"),
    ]


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("<@U1> and <@U2|bob>", "@Ann and @U2"),
        ("<#C1|ours> <!here> <!subteam^S1|@team>", "#ours @here @team"),
        (
            "<https://example.org> <https://example.org|the page>",
            "https://example.org the page (https://example.org)",
        ),
        ("<http://example.org|example.org>", "http://example.org"),
        ("a &lt;b&gt; &amp;lt;", "a <b> &lt;"),
    ],
)
def test_a_text_is_read_as_people_see_it(written: str, read: str) -> None:
    assert readable(written, {"U1": "Ann"}) == read


@pytest.mark.parametrize(
    ("command", "text", "read"),
    [
        ("/hermes", "status now", "/status now"),
        ("/hermes", "", "/help"),
        ("/stop", "", "/stop"),
        ("/hermes", "!stop", "/stop"),
    ],
)
def test_a_slash_command_is_a_command(command: str, text: str, read: str) -> None:
    payload = {"command": command, "text": text, "user_id": "U1", "channel_id": "C1", "trigger_id": "t1"}
    found = read_envelope("slash_commands", payload, APP)
    assert isinstance(found, MessageEvent)
    assert (found.kind, found.text, found.message_id) == ("command", read, "t1")
