"""Messages and their sources, as frozen values. The adapter that receives a message makes them.

Only the adapter sees the payload of its platform. The gateway gets a `MessageEvent`, which therefore holds
everything that an answer may need. Sources and events are stored as JSON and read back equal.

The session key is made from a source here and nowhere else, and is never parsed: code that needs the
parts keeps the source. A key must give the same people the same conversation, and two chats must never
have the same key. Ids contain separators (`!room:server`), so each part is percent-encoded, and an absent
part cannot be taken for another one:

    direct chat                      agent:main:telegram:dm:<chat>
    the same, by another bot of ours agent:main:telegram@second:dm:<chat>
    topic of a direct chat           agent:main:telegram:dm:<chat>:<thread>
    group, all together              agent:main:telegram:group:<chat>
    group, each person apart         agent:main:telegram:group:<chat>:<person>
    thread, each person apart        agent:main:telegram:group:<chat>:<thread>:<person>
    thread, all together             agent:main:telegram:group:<chat>:<thread>:

The colon at the end is the empty part of the person. Without it a topic and a person with the same number
would share a conversation. If an id has several spellings (a phone number with and without its country),
the platform chooses one before it builds the source.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any, Literal, TypeVar
from urllib.parse import quote

import msgspec

from .ids import session_key

ChatType = Literal["dm", "group", "channel", "thread"]
AttachmentKind = Literal["photo", "document", "voice", "audio", "video", "sticker"]
EventKind = Literal["text", "command", "callback", "internal", "unreadable"]

# Two more types occur in data of the original; each is one of ours.
_CHAT_TYPE_ALIASES = {"forum": "group", "webhook": "channel"}

# Common in ids and harmless in a key. A colon is not harmless: it separates the parts.
_PLAIN_IN_IDS = "!#+/=@"

_HALF = re.compile("[\ud800-\udfff]")

_Value = TypeVar("_Value")


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file of a conversation, by reference: its name in the directory of the session's files."""

    name: str
    mime_type: str | None = None
    size: int | None = None


@dataclass(frozen=True, slots=True)
class Attachment:
    """A file of a message or of an answer. It is found by the first of `path`, `url` and `file_id` that is
    set."""

    kind: AttachmentKind
    name: str | None = None
    mime_type: str | None = None
    size: int | None = None
    path: str | None = None
    url: str | None = None
    file_id: str | None = None
    """The id that the platform gave to a file that was not fetched yet. If the address of the file holds our
    token, this id is stored instead of the address."""

    @property
    def stored(self) -> StoredFile | None:
        """The reference to this file; None if it was not stored."""
        return StoredFile(PurePath(self.path).name, self.mime_type, self.size) if self.path else None


@dataclass(frozen=True, slots=True)
class SessionSource:
    """The place of a conversation, and the person who speaks there."""

    platform: str
    chat_id: str
    """Empty if the platform knows only the person."""
    chat_type: ChatType = "dm"
    user_id: str | None = None
    user_id_alt: str | None = None
    """Another id of the same person, which never changes, if the platform has one."""
    user_name: str | None = None
    chat_name: str | None = None
    thread_id: str | None = None
    scope_id: str | None = None
    """The guild or workspace of the chat. Not a part of the key: the id of a chat is unique within an
    account, and the scope is not always known."""
    account: str = "main"
    """The name of our account on the platform. A person who talks to two bots has two chats, which often
    have the same id."""

    def __post_init__(self) -> None:
        _mend(self)

    @property
    def participant(self) -> str | None:
        """The id that distinguishes the person who speaks from others."""
        return self.user_id_alt or self.user_id or None

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values. The scope has its old name too, for programs that know only that name."""
        return {**_plain(self), "guild_id": self.scope_id}

    @classmethod
    def from_dict(cls, data: object) -> SessionSource:
        """Read a source from JSON values of any version of hermes-trio or hermes-agent. Raise `ValueError`
        for other data, with the reason."""
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
    """One message, as the platform delivered it."""

    source: SessionSource
    text: str = ""
    """The text of the message. If the message is unreadable: the reason, and then the payload."""
    message_id: str | None = None
    """The id that the platform gave to the message, or to the press of a button."""
    kind: EventKind = "text"
    attachments: tuple[Attachment, ...] = ()
    reply_to: str | None = None
    reply_to_text: str | None = None
    """The text of the message replied to, as the platform quotes it: that message may not be stored here."""
    sent_at: float | None = None
    """The time of sending, or of the edit if the message was edited."""
    edited: bool = False
    idempotency_key: str | None = None
    """The key with which a caller marks a repeated request as the same message, if it has no message ids."""
    run_id: str | None = None
    """The id of the run that will answer the message, if the caller needs it before the run begins."""
    fingerprint: str | None = None
    """The fingerprint of the request, to detect another request with the same idempotency key."""

    def __post_init__(self) -> None:
        _mend(self)

    @property
    def message_key(self) -> str | None:
        """The name of the message within its (platform, account, chat): two events with the same name are one
        message. An edit keeps the id of its message but is another message. An idempotency key is never
        equal to a message id. None if there is neither; the inbox then makes a name."""
        if self.message_id:
            prefix = f"edit:{self.sent_at}" if self.edited else "id"
            return f"{prefix}:{self.message_id}"
        return f"key:{self.idempotency_key}" if self.idempotency_key else None

    @property
    def files(self) -> tuple[StoredFile, ...]:
        """The references to the attachments that were stored."""
        return tuple(file for one in self.attachments if (file := one.stored) is not None)

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return {**_plain(self), "source": self.source.to_dict()}

    @classmethod
    def from_dict(cls, data: object) -> MessageEvent:
        """Read an event from JSON values of any version. Raise `ValueError` for other data, with the
        reason."""
        if isinstance(data, Mapping) and "source" in data:
            data = {**data, "source": SessionSource.from_dict(data["source"])}
        return _read(data, cls, "message event")


@dataclass(frozen=True, slots=True)
class HomeChannel:
    """The chat of a platform that gets announcements, such as that of a restart."""

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
    """Return whether several people share a session, so that the agent has to be told who speaks. People
    without an id always share one; a direct chat has only one person."""
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
    """Return the key of the conversation of a source. Raise `InvalidId` if it is too long."""
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
    """Return the parts for a direct chat. The id of the person replaces a missing id of the chat. If both are
    missing, all such messages share one session, so that none is lost."""
    parts = [_part(source.chat_id or source.participant)]
    if source.thread_id:
        parts.append(_part(source.thread_id))
    return parts if any(parts) else []


def _part(value: str | None, plain: str = _PLAIN_IN_IDS) -> str:
    # Two dots are legal in an id and refused in a key, because a path with them can leave its directory.
    return quote(value or "", safe=plain).replace("..", "%2E%2E")


def _mend(value: SessionSource | MessageEvent) -> None:
    """Replace lone surrogates, which can be neither stored nor sent. A platform makes one when it cuts a text
    in the middle of an emoji."""
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
