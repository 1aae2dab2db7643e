"""What people say and where they say it, as values: frozen, made once at the door, never changed.

A platform's payload ends in its adapter. What goes inwards is a `MessageEvent`; what is not in it
is lost, so it holds everything an answer may need. Sources and events become JSON in the store and
are read back equal.

The session key is made from a source here and nowhere else, and nothing ever reads a key: whoever
needs the parts keeps the source. A key must give the same people the same conversation, and never
give two chats one. Ids contain separators (`!room:server`), so each part is percent-encoded, and
the parts that may be absent cannot be taken for one another:

    direct chat                      agent:main:telegram:dm:<chat>
    the same, by another bot of ours agent:main:telegram@second:dm:<chat>
    topic of a direct chat           agent:main:telegram:dm:<chat>:<thread>
    group, all together              agent:main:telegram:group:<chat>
    group, each person apart         agent:main:telegram:group:<chat>:<person>
    thread, each person apart        agent:main:telegram:group:<chat>:<thread>:<person>
    thread, all together             agent:main:telegram:group:<chat>:<thread>:

The colon at the end is the empty place of the person. Without it a topic and a person of the same
number would share a conversation. Where ids have several spellings (a phone number with and without
its country), the platform chooses one before it builds the source.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeVar
from urllib.parse import quote

import msgspec

from .ids import session_key

ChatType = Literal["dm", "group", "channel", "thread"]
AttachmentKind = Literal["photo", "document", "voice", "audio", "video", "sticker"]
EventKind = Literal["text", "command", "callback", "internal", "unreadable"]

# Data of the original has two more; what they stand for are these.
_CHAT_TYPE_ALIASES = {"forum": "group", "webhook": "channel"}

# Common in ids and harmless in a key. A colon is not: it separates.
_PLAIN_IN_IDS = "!#+/=@"

_HALF = re.compile("[\ud800-\udfff]")

_Value = TypeVar("_Value")


@dataclass(frozen=True, slots=True)
class Attachment:
    """A file that a message brings or an answer takes along, found by the first of `path`, `url`
    and `file_id` that is there."""

    kind: AttachmentKind
    name: str | None = None
    mime_type: str | None = None
    size: int | None = None
    path: str | None = None
    url: str | None = None
    file_id: str | None = None
    """The platform's own name for a file that was not fetched yet. Where the address of a file
    holds our token, this is stored instead of it."""


@dataclass(frozen=True, slots=True)
class SessionSource:
    """Where a conversation lives, and who speaks there."""

    platform: str
    chat_id: str
    """Empty where the platform knows only who speaks."""
    chat_type: ChatType = "dm"
    user_id: str | None = None
    user_id_alt: str | None = None
    """A better id of the same person, where a platform has one that never changes."""
    user_name: str | None = None
    chat_name: str | None = None
    thread_id: str | None = None
    scope_id: str | None = None
    """What the chat is a part of: a guild, a workspace. Not part of the key: within an account the
    id of a chat is unique, and this one is not always known."""
    account: str = "main"
    """Which of our accounts on the platform it is. One person talking to two bots has two chats,
    and often with one id."""

    def __post_init__(self) -> None:
        _mend(self)

    @property
    def participant(self) -> str | None:
        """The id by which the person who speaks is told from the others."""
        return self.user_id_alt or self.user_id or None

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values. The scope has its old name too, for those who know only that."""
        return {**_plain(self), "guild_id": self.scope_id}

    @classmethod
    def from_dict(cls, data: object) -> SessionSource:
        """Read a source back, older or newer, ours or the original's. ValueError says what is wrong
        with anything else."""
        if isinstance(data, Mapping):
            data = dict(data)
            if data.get("scope_id") is None:
                data["scope_id"] = data.get("guild_id")
            chat_type = data.get("chat_type", "dm")
            if isinstance(chat_type, str):
                data["chat_type"] = _CHAT_TYPE_ALIASES.get(chat_type, chat_type)
        return _read(data, cls, "session source")


@dataclass(frozen=True, slots=True)
class MessageEvent:
    """One message as a platform delivered it."""

    source: SessionSource
    text: str = ""
    """What was said. Of what is unreadable: why, and then all of it as it came."""
    message_id: str | None = None
    """The platform's id of the message; of the press, if it is a button that was pressed."""
    kind: EventKind = "text"
    attachments: tuple[Attachment, ...] = ()
    reply_to: str | None = None
    reply_to_text: str | None = None
    """The message replied to, as the platform quotes it: it may be older than all we stored."""
    sent_at: float | None = None
    """When it was sent; when it was changed, if it was edited."""
    edited: bool = False
    idempotency_key: str | None = None
    """What a caller gave so that its request, repeated, is one message: for doors without message
    ids."""
    run_id: str | None = None
    """What the run that answers it is called, where its door has to say so before it begins."""
    fingerprint: str | None = None
    """Of the request it came with, so that another one with the same idempotency key is found out."""

    def __post_init__(self) -> None:
        _mend(self)

    @property
    def message_key(self) -> str | None:
        """What this is called within its (platform, account, chat): seen twice, it is one message.
        An edit keeps the id of its message and is another one all the same; a caller's key is no
        message id, whatever it looks like. None where the door gives no name: it gets ours."""
        if self.message_id:
            name = f"edit:{self.sent_at}" if self.edited else "id"
            return f"{name}:{self.message_id}"
        return f"key:{self.idempotency_key}" if self.idempotency_key else None

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {**_plain(self), "source": self.source.to_dict()}

    @classmethod
    def from_dict(cls, data: object) -> MessageEvent:
        """Read an event back, older or newer. ValueError says what is wrong with anything else."""
        if isinstance(data, Mapping) and "source" in data:
            data = {**data, "source": SessionSource.from_dict(data["source"])}
        return _read(data, cls, "message event")


@dataclass(frozen=True, slots=True)
class HomeChannel:
    """The chat of a platform that hears what is addressed to nobody in particular."""

    platform: str
    chat_id: str
    name: str | None = None
    thread_id: str | None = None


def is_shared(
    source: SessionSource,
    *,
    group_sessions_per_user: bool = True,
    thread_sessions_per_user: bool = False,
) -> bool:
    """Whether several people talk in one session, so that the agent has to be told who speaks. A
    person without an id cannot be kept apart from others; a direct chat has only one."""
    if source.chat_type == "dm":
        return False
    in_thread = bool(source.thread_id) or source.chat_type == "thread"
    apart = thread_sessions_per_user if in_thread else group_sessions_per_user
    return not (apart and source.participant)


def build_session_key(
    source: SessionSource,
    *,
    namespace: str = "main",
    group_sessions_per_user: bool = True,
    thread_sessions_per_user: bool = False,
) -> str:
    """The key of the conversation that this source belongs to; InvalidId if it is too long."""
    address = _part(source.platform, plain="")
    if source.account != "main":
        address += "@" + _part(source.account)
    parts = ["agent", _part(namespace, plain=""), address, source.chat_type]
    if source.chat_type == "dm":
        parts += _direct(source)
    else:
        shared = is_shared(
            source,
            group_sessions_per_user=group_sessions_per_user,
            thread_sessions_per_user=thread_sessions_per_user,
        )
        person = "" if shared else _part(source.participant)
        parts.append(_part(source.chat_id))
        if source.thread_id:
            parts += [_part(source.thread_id), person]
        elif person:
            parts.append(person)
    return session_key(":".join(parts))


def _direct(source: SessionSource) -> list[str]:
    """A direct chat is the person in it, so the person's id serves where the chat has none. Nothing
    known at all is one common lane rather than a lost message."""
    parts = [_part(source.chat_id or source.participant)]
    if source.thread_id:
        parts.append(_part(source.thread_id))
    return parts if any(parts) else []


def _part(value: str | None, plain: str = _PLAIN_IN_IDS) -> str:
    # Two dots are legal in an id and refused in a key: they are how a path leaves its directory.
    return quote(value or "", safe=plain).replace("..", "%2E%2E")


def _mend(value: SessionSource | MessageEvent) -> None:
    """Half a character, as a platform makes when it cuts a text in the middle of an emoji, can neither
    be stored nor sent on. It becomes the sign for what could not be read."""
    for name in value.__slots__:
        text = getattr(value, name)
        if isinstance(text, str) and not text.isascii() and _HALF.search(text):
            object.__setattr__(value, name, _HALF.sub("\N{REPLACEMENT CHARACTER}", text))


def _plain(value: SessionSource | MessageEvent) -> dict[str, Any]:
    plain: dict[str, Any] = msgspec.to_builtins(value)
    return plain


def _read(data: object, kind: type[_Value], what: str) -> _Value:
    try:
        return msgspec.convert(data, kind)
    except msgspec.ValidationError as error:
        raise ValueError(f"This is not a {what}: {error}.") from error
