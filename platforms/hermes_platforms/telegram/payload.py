"""The parts of an update that we read. Fields that are not named here are ignored."""

from __future__ import annotations

from typing import Any

import msgspec

MOST_LEVELS = 40
"""Greatest depth at which the parts of a rich message are read."""


def words_of(part: object, level: int = 0) -> str:
    """Return the words of a part of a rich message. Blocks are on lines of their own, and the cells of a
    table are separated by tabs. A part of an unknown form has none."""
    if isinstance(part, str):
        return part
    if level > MOST_LEVELS:
        return ""
    if isinstance(part, list):
        return "".join(words_of(one, level + 1) for one in part)
    if not isinstance(part, dict):
        return ""
    words = [words_of(part.get(name), level + 1) for name in ("summary", "text", "expression")]
    for name, between in (("blocks", ""), ("items", ""), ("cells", "\t")):
        inner = part.get(name)
        for one in inner if isinstance(inner, list) else ():
            cells = one if between and isinstance(one, list) else [one]
            words.append(between.join(words_of(cell, level + 1) for cell in cells))
    return "\n".join(one for one in words if one)


class TelegramUser(msgspec.Struct, frozen=True):
    id: int
    is_bot: bool = False
    first_name: str = ""
    last_name: str = ""
    username: str = ""

    @property
    def name(self) -> str | None:
        return f"{self.first_name} {self.last_name}".strip() or self.username or None


class TelegramChat(msgspec.Struct, frozen=True):
    id: int
    type: str
    title: str | None = None
    is_forum: bool = False
    is_direct_messages: bool = False

    @property
    def is_direct(self) -> bool:
        """Return True if all messages are addressed to the bot: in a private chat and in the direct messages
        of a channel."""
        return self.type == "private" or self.is_direct_messages


class TelegramEntity(msgspec.Struct, frozen=True):
    type: str
    offset: int
    length: int
    user: TelegramUser | None = None

    def marked(self, text: str) -> str:
        """Return the part of the text that it marks. Offsets are in UTF-16 units."""
        units = text.encode("utf-16-le", "surrogatepass")
        return units[2 * self.offset : 2 * (self.offset + self.length)].decode("utf-16-le", "replace")


class TelegramFile(msgspec.Struct, frozen=True):
    file_id: str
    file_size: int | None = None
    file_name: str | None = None
    mime_type: str | None = None
    width: int = 0
    emoji: str = ""


class Location(msgspec.Struct, frozen=True):
    latitude: float
    longitude: float


class Venue(msgspec.Struct, frozen=True):
    title: str = ""
    address: str = ""


class Contact(msgspec.Struct, frozen=True):
    phone_number: str
    first_name: str = ""
    last_name: str = ""


class PollOption(msgspec.Struct, frozen=True):
    text: str = ""


class Poll(msgspec.Struct, frozen=True):
    question: str
    options: list[PollOption] = []


class Dice(msgspec.Struct, frozen=True):
    emoji: str
    value: int


class Origin(msgspec.Struct, frozen=True):
    """Author of a forwarded message."""

    sender_user: TelegramUser | None = None
    sender_user_name: str = ""
    sender_chat: TelegramChat | None = None
    chat: TelegramChat | None = None

    @property
    def name(self) -> str:
        chat = self.sender_chat or self.chat
        of_user = self.sender_user.name if self.sender_user else None
        return of_user or self.sender_user_name or (chat.title if chat else None) or "somebody"


class DirectTopic(msgspec.Struct, frozen=True):
    topic_id: int


class Quote(msgspec.Struct, frozen=True):
    text: str = ""


class Quoted(msgspec.Struct, frozen=True, rename={"sender": "from"}):
    message_id: int
    sender: TelegramUser | None = None
    text: str = ""
    rich_message: Any = None
    caption: str = ""
    forum_topic_created: Any = None
    photo: Any = None
    document: Any = None
    voice: Any = None
    audio: Any = None
    video: Any = None
    video_note: Any = None
    sticker: Any = None
    location: Any = None
    contact: Any = None
    poll: Any = None

    @property
    def words(self) -> str:
        """Text of the message, or its kind in brackets; empty if neither is known."""
        media = {
            "photo": self.photo,
            "video": self.video or self.video_note,
            "voice": self.voice or self.audio,
            "document": self.document,
            "sticker": self.sticker,
            "location": self.location,
            "contact": self.contact,
            "poll": self.poll,
        }
        kind = next((name for name, one in media.items() if one is not None), None)
        return self.text or words_of(self.rich_message) or self.caption or (f"({kind})" if kind else "")


class Message(msgspec.Struct, frozen=True, rename={"sender": "from"}):
    message_id: int
    chat: TelegramChat
    date: float
    sender: TelegramUser | None = None
    sender_chat: TelegramChat | None = None
    edit_date: float | None = None
    message_thread_id: int | None = None
    is_topic_message: bool = False
    direct_messages_topic: DirectTopic | None = None
    is_automatic_forward: bool = False
    forward_origin: Origin | None = None
    reply_to_message: Quoted | None = None
    quote: Quote | None = None
    text: str = ""
    rich_message: Any = None
    entities: list[TelegramEntity] = []
    caption: str = ""
    caption_entities: list[TelegramEntity] = []
    photo: list[TelegramFile] = []
    document: TelegramFile | None = None
    voice: TelegramFile | None = None
    audio: TelegramFile | None = None
    video: TelegramFile | None = None
    video_note: TelegramFile | None = None
    animation: TelegramFile | None = None
    sticker: TelegramFile | None = None
    location: Location | None = None
    venue: Venue | None = None
    contact: Contact | None = None
    poll: Poll | None = None
    dice: Dice | None = None
    # Of these we read only that they exist.
    checklist: Any = None
    game: Any = None
    giveaway: Any = None
    invoice: Any = None
    paid_media: Any = None
    story: Any = None


class Pressed(msgspec.Struct, frozen=True):
    """The message whose button was pressed. For an old message Telegram sends only these fields."""

    message_id: int
    chat: TelegramChat
    message_thread_id: int | None = None
    is_topic_message: bool = False
    direct_messages_topic: DirectTopic | None = None


class Press(msgspec.Struct, frozen=True, rename={"sender": "from"}):
    id: str
    sender: TelegramUser
    data: str = ""
    message: Pressed | None = None


class StoppedDraft(msgspec.Struct, frozen=True):
    """A person has pressed the stop button of a draft."""

    chat: TelegramChat
    draft_id: int
    message_thread_id: int | None = None


class Update(msgspec.Struct, frozen=True):
    update_id: int
    message: Message | None = None
    edited_message: Message | None = None
    callback_query: Press | None = None
    stopped_message_generation: StoppedDraft | None = None


UNSEEN = ("checklist", "game", "giveaway", "invoice", "paid_media", "story")
"""Kinds of messages whose content a bot does not get, or that we do not read."""
