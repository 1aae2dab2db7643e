"""Conversion of an event of a room to an event of the gateway. It is pure and raises for no JSON.

In a room of more than two people a message is addressed to the account if it mentions it. Notices are for
nobody: programs write them, and two programs would answer each other for ever.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

import msgspec

from hermes_trio.platform import Attachment, MessageEvent, SessionSource

ENCRYPTED = "m.room.encrypted"

_FILES = {"m.image": "photo", "m.file": "document", "m.audio": "audio", "m.video": "video"}
_QUOTE = re.compile(r"\A(?:> .*\n)+\n?")
"""Fallback of older clients: the message replied to stands before the reply."""


@dataclass(frozen=True, slots=True)
class Account:
    """Identity of the account, and the messages that it accepts."""

    user_id: str
    platform: str = "matrix"
    account: str = "main"
    require_mention: bool = True

    @property
    def short_name(self) -> str:
        return self.user_id.removeprefix("@").partition(":")[0]


@dataclass(frozen=True, slots=True)
class Room:
    """The known facts of a room."""

    id: str
    is_direct: bool = False
    name: str | None = None
    people: tuple[tuple[str, str], ...] = ()
    """User ids and display names."""

    def name_of(self, user_id: str) -> str | None:
        return dict(self.people).get(user_id)


class _InReplyTo(msgspec.Struct, frozen=True):
    event_id: str


class _Relation(msgspec.Struct, frozen=True, rename={"in_reply_to": "m.in_reply_to"}):
    rel_type: str = ""
    event_id: str | None = None
    in_reply_to: _InReplyTo | None = None
    is_falling_back: bool = False


class _FileInfo(msgspec.Struct, frozen=True):
    mimetype: str | None = None
    size: int | None = None


class _Mentions(msgspec.Struct, frozen=True):
    user_ids: list[str] = []


class _NewContent(msgspec.Struct, frozen=True):
    body: str = ""
    msgtype: str = ""


_RENAMED = {
    "relates_to": "m.relates_to",
    "new_content": "m.new_content",
    "mentions": "m.mentions",
    "voice": "org.matrix.msc3245.voice",
}


class _Content(msgspec.Struct, frozen=True, rename=_RENAMED):
    msgtype: str = ""
    body: str = ""
    filename: str | None = None
    url: str | None = None
    info: _FileInfo | None = None
    relates_to: _Relation | None = None
    new_content: _NewContent | None = None
    mentions: _Mentions | None = None
    voice: Any = None


class RoomEvent(msgspec.Struct, frozen=True):
    """A message in a room."""

    event_id: str
    sender: str
    type: str
    content: _Content
    origin_server_ts: float = 0.0


def read_event(payload: object, account: Account) -> RoomEvent | MessageEvent | None:
    """Return a message of a person; None for any other event. One that cannot be read is an event with its
    content."""
    if not isinstance(payload, dict) or payload.get("type") != "m.room.message":
        return None
    if payload.get("sender") == account.user_id or not payload.get("content"):
        return None  # ours, or deleted
    try:
        read = msgspec.convert(payload, RoomEvent)
    except (msgspec.ValidationError, OverflowError) as error:
        source = SessionSource(account.platform, "", account=account.account)
        text = f"{error}\n{json.dumps(payload, ensure_ascii=False)}"
        return MessageEvent(source, text, message_id=str(payload.get("event_id")), kind="unreadable")
    return None if read.content.msgtype == "m.notice" else read


def event_of(message: RoomEvent, account: Account, room: Room) -> MessageEvent | None:
    """Return the event of a message; None if it is not addressed to the account, or has no content."""
    content, relation = message.content, message.content.relates_to
    if not (room.is_direct or _addresses(content, account) or not account.require_mention):
        return None
    edited = relation is not None and relation.rel_type == "m.replace"
    if edited and content.new_content is None:
        return None
    file = _file(content)
    text = content.new_content.body if edited and content.new_content else _text(content, has_file=bool(file))
    text = _without_name(text, account, room)
    if not (text or file):
        return None
    replies = relation is not None and relation.in_reply_to is not None and not relation.is_falling_back
    in_thread = relation is not None and relation.rel_type == "m.thread"
    return MessageEvent(
        source=SessionSource(
            platform=account.platform,
            account=account.account,
            chat_id=room.id,
            chat_type="dm" if room.is_direct else "group",
            chat_name=room.name,
            user_id=message.sender,
            user_name=room.name_of(message.sender) or message.sender.removeprefix("@").partition(":")[0],
            thread_id=relation.event_id if in_thread and relation else None,
        ),
        text=text,
        message_id=relation.event_id if edited and relation else message.event_id,
        kind="command" if text.startswith("/") else "text",
        attachments=() if file is None or edited else (file,),
        reply_to=relation.in_reply_to.event_id if replies and relation and relation.in_reply_to else None,
        sent_at=message.origin_server_ts / 1000,
        edited=edited,
    )


def _addresses(content: _Content, account: Account) -> bool:
    body = content.new_content.body if content.new_content else content.body
    named = content.mentions is not None and account.user_id in content.mentions.user_ids
    return named or account.user_id in body


def _text(content: _Content, *, has_file: bool) -> str:
    if has_file:  # the body of a file is its name, unless it has both
        return content.body if content.filename not in (None, content.body) else ""
    relation = content.relates_to
    if relation is not None and relation.in_reply_to is not None:
        return _QUOTE.sub("", content.body)
    return f"* {content.body}" if content.msgtype == "m.emote" else content.body


def _without_name(text: str, account: Account, room: Room) -> str:
    """Return a text without the mention at its beginning: a command may follow it. `!` begins a command too,
    because many clients keep `/` for themselves."""
    names = [account.user_id, account.short_name, room.name_of(account.user_id) or account.short_name]
    for name in sorted(names, key=len, reverse=True):
        text = re.sub(rf"(?i)\A\s*@?{re.escape(name)}\s*[:,]?\s+(?=\S)", "", text)
    return re.sub(r"\A!(?=[a-z])", "/", text.strip())


def _file(content: _Content) -> Attachment | None:
    kind: Any = _FILES.get(content.msgtype)
    if kind is None or content.url is None or not content.url.startswith("mxc://"):
        return None
    if content.voice is not None:
        kind = "voice"
    return Attachment(
        kind,
        name=content.filename or content.body or None,
        mime_type=content.info.mimetype if content.info else None,
        size=content.info.size if content.info else None,
        file_id=content.url,
    )
