"""The parts of Discord's payloads that we read. Ids are text: they are too long for numbers in JSON."""

from __future__ import annotations

from typing import Any

import msgspec

DEFAULT, REPLY = 0, 19
"""Types of the messages that people write. The others are notes of Discord: somebody joined, and so on."""
FORWARD = 1
VOICE_MESSAGE = 1 << 13
THREADS = (10, 11, 12)
"""Types of the channels that are threads."""
COMMAND, PRESS = 2, 3
"""Types of interactions."""


class DiscordUser(msgspec.Struct, frozen=True):
    id: str
    username: str = ""
    global_name: str | None = None
    bot: bool = False

    @property
    def name(self) -> str:
        return self.global_name or self.username


class Member(msgspec.Struct, frozen=True):
    nick: str | None = None
    user: DiscordUser | None = None


class DiscordFile(msgspec.Struct, frozen=True):
    id: str
    filename: str = ""
    content_type: str | None = None
    size: int | None = None
    url: str = ""


class Sticker(msgspec.Struct, frozen=True):
    name: str = ""


class Reference(msgspec.Struct, frozen=True):
    type: int = 0
    message_id: str | None = None
    channel_id: str | None = None


class Quoted(msgspec.Struct, frozen=True):
    """The message that a message replies to."""

    id: str
    author: DiscordUser
    content: str = ""


class Forwarded(msgspec.Struct, frozen=True):
    content: str = ""
    attachments: list[DiscordFile] = []


class Snapshot(msgspec.Struct, frozen=True):
    message: Forwarded


class Message(msgspec.Struct, frozen=True):
    id: str
    channel_id: str
    author: DiscordUser
    content: str = ""
    type: int = DEFAULT
    timestamp: str | None = None
    edited_timestamp: str | None = None
    guild_id: str | None = None
    member: Member | None = None
    webhook_id: str | None = None
    mentions: list[DiscordUser] = []
    attachments: list[DiscordFile] = []
    sticker_items: list[Sticker] = []
    message_reference: Reference | None = None
    referenced_message: Quoted | None = None
    message_snapshots: list[Snapshot] = []
    flags: int = 0
    poll: Any = None


class Channel(msgspec.Struct, frozen=True):
    """A channel, or a thread, which is a channel with a parent."""

    id: str
    type: int = 0
    parent_id: str | None = None
    name: str | None = None

    @property
    def chat_id(self) -> str:
        """The channel of the conversation: for a thread the channel that it belongs to."""
        return self.parent_id if self.is_thread and self.parent_id else self.id

    @property
    def is_thread(self) -> bool:
        return self.type in THREADS


class Option(msgspec.Struct, frozen=True):
    name: str
    value: Any = None


class InteractionData(msgspec.Struct, frozen=True):
    custom_id: str = ""
    name: str = ""
    options: list[Option] = []


class Pressed(msgspec.Struct, frozen=True):
    id: str


class Interaction(msgspec.Struct, frozen=True):
    """A press of a button, or a slash command."""

    id: str
    type: int
    token: str = ""
    channel_id: str | None = None
    channel: Channel | None = None
    guild_id: str | None = None
    data: InteractionData | None = None
    member: Member | None = None
    user: DiscordUser | None = None
    message: Pressed | None = None

    @property
    def person(self) -> DiscordUser | None:
        return self.user or (self.member.user if self.member else None)
