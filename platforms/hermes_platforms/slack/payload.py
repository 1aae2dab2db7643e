"""The parts of Slack's payloads that we read. The id of a message is its time (`ts`), as text."""

from __future__ import annotations

from typing import Any

import msgspec

WRITTEN = (None, "file_share", "thread_broadcast", "me_message")
"""Subtypes of the messages that people write. The others are notes of Slack, and edits."""


class SlackFile(msgspec.Struct, frozen=True):
    id: str
    name: str | None = None
    mimetype: str | None = None
    size: int | None = None
    subtype: str | None = None


class Message(msgspec.Struct, frozen=True):
    """A message, as an event or in a history."""

    ts: str
    channel: str = ""
    channel_type: str | None = None
    user: str | None = None
    text: str = ""
    type: str = "message"
    subtype: str | None = None
    bot_id: str | None = None
    thread_ts: str | None = None
    parent_user_id: str | None = None
    files: list[SlackFile] = []


class Delivery(msgspec.Struct, frozen=True):
    """Payload of an envelope of the type `events_api`."""

    event: dict[str, Any]
    team_id: str | None = None


class Person(msgspec.Struct, frozen=True):
    id: str


class Place(msgspec.Struct, frozen=True):
    id: str
    name: str = ""


class Pressed(msgspec.Struct, frozen=True):
    ts: str
    thread_ts: str | None = None


class Action(msgspec.Struct, frozen=True):
    type: str = ""
    value: str | None = None


class Press(msgspec.Struct, frozen=True):
    """Payload of an envelope of the type `interactive`."""

    type: str
    user: Person
    trigger_id: str = ""
    channel: Place | None = None
    message: Pressed | None = None
    actions: list[Action] = []


class SlashCommand(msgspec.Struct, frozen=True):
    """Payload of an envelope of the type `slash_commands`."""

    command: str
    user_id: str
    channel_id: str
    trigger_id: str
    channel_name: str = ""
    text: str = ""
    team_id: str | None = None
