"""An update as Telegram tells it, as far as we read it. What is not named here is passed over."""

from __future__ import annotations

from typing import Any

import msgspec


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
        """Whether what is said here is said to us: a private chat, or the direct messages of a channel."""
        return self.type == "private" or self.is_direct_messages


class TelegramEntity(msgspec.Struct, frozen=True):
    type: str
    offset: int
    length: int
    user: TelegramUser | None = None

    def of(self, text: str) -> str:
        """The part of the text that it marks. Places are in UTF-16 units."""
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
    """Whose message it was that somebody hands on."""

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
        """What it says, or what it is; empty if that is not known."""
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
        what = next((kind for kind, one in media.items() if one is not None), None)
        return self.text or self.caption or (f"({what})" if what else "")


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
    # Of these we know no more than that they are there.
    checklist: Any = None
    game: Any = None
    giveaway: Any = None
    invoice: Any = None
    paid_media: Any = None
    story: Any = None


class Pressed(msgspec.Struct, frozen=True):
    """The message whose button was pressed; of one that is old Telegram says no more than this."""

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


class Update(msgspec.Struct, frozen=True):
    update_id: int
    message: Message | None = None
    edited_message: Message | None = None
    callback_query: Press | None = None


UNSEEN = ("checklist", "game", "giveaway", "invoice", "paid_media", "story")
"""What somebody may send that a bot cannot see into, or we do not."""
