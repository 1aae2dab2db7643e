"""Messages of people as updates of the Bot API."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from hermes_trio.platform import STOPPED_DRAFT, Attachment, MessageEvent, SessionSource
from hermes_trio.testing import Shown

from .bot_api_entities import Entity, utf16_length

_COMMAND = re.compile(r"(?:(?<=\s)|^)/[A-Za-z0-9_]+(?:@\w+)?")
_MENTION = re.compile(r"(?:(?<=\W)|^)@\w{3,}")


def update_of(number: int, event: MessageEvent, at: int) -> dict[str, Any]:
    """Return the update of an event."""
    if event.text.startswith(STOPPED_DRAFT):
        return {"update_id": number, "stopped_message_generation": stopped_draft_of(event)}
    if event.kind == "callback":
        return {"update_id": number, "callback_query": press_of(event, at)}
    kind = "edited_message" if event.edited else "message"
    return {"update_id": number, kind: message_of(event, at)}


def stopped_draft_of(event: MessageEvent) -> dict[str, Any]:
    """Return an event as the stop of a draft."""
    number, thread_id = int(event.text.removeprefix(STOPPED_DRAFT)), event.source.thread_id
    topic = {"message_thread_id": int(thread_id)} if thread_id else {}
    return {"chat": chat_of(event.source), "draft_id": number, **topic}


def press_of(event: MessageEvent, at: int) -> dict[str, Any]:
    """Return an event as the press of a button."""
    message = {"message_id": int(event.reply_to or 0), "date": at, "chat": chat_of(event.source)}
    return {
        "id": event.message_id,
        "from": person_of(event.source),
        "chat_instance": "1",
        "message": {**message, **topic_of(event.source)},
        "data": event.text,
    }


def person_of(source: SessionSource) -> dict[str, Any]:
    """Return the sender of a message."""
    return {"id": int(source.user_id or 0), "is_bot": False, "first_name": source.user_name or "Kim"}


def topic_of(source: SessionSource) -> dict[str, Any]:
    """Return the fields that name a topic; none outside of one."""
    if not source.thread_id or source.thread_id == "1":
        return {}
    return {"message_thread_id": int(source.thread_id), "is_topic_message": True}


def message_of(event: MessageEvent, at: int) -> dict[str, Any]:
    """Return an event as the message of a person."""
    source = event.source
    message: dict[str, Any] = {
        "message_id": int(event.message_id or 0),
        "date": at,
        "chat": chat_of(source),
        "from": person_of(source),
        **topic_of(source),
    }
    if event.edited:
        message["edit_date"] = int(event.sent_at or at)
    if event.reply_to:
        message["reply_to_message"] = {
            "message_id": int(event.reply_to),
            "date": at,
            "chat": chat_of(source),
            "text": event.reply_to_text or "",
        }
    words, entities = ("caption", "caption_entities") if event.attachments else ("text", "entities")
    if event.text:
        message |= {words: event.text, entities: entities_of(event.text)}
    for file in event.attachments:
        message[file.kind] = _file(file)
    return message


def chat_of(source: SessionSource) -> dict[str, Any]:
    """Return the chat of a message."""
    chat_id = int(source.chat_id)
    if source.chat_type == "dm":
        return {"id": chat_id, "type": "private", "first_name": source.user_name or "Kim"}
    chat = {"id": chat_id, "type": "supergroup", "title": source.chat_name or "A group"}
    return {**chat, "is_forum": True} if source.thread_id else chat


def entities_of(text: str) -> list[dict[str, Any]]:
    """Return the entities of commands and mentions, which the server finds itself."""
    found = [("bot_command", match) for match in _COMMAND.finditer(text)]
    found += [("mention", match) for match in _MENTION.finditer(text)]
    return [
        {"type": kind, "offset": utf16_length(text[: match.start()]), "length": utf16_length(match[0])}
        for kind, match in found
    ]


def _file(file: Attachment) -> Any:
    one: dict[str, Any] = {
        "file_id": file.file_id,
        "file_unique_id": file.file_id,
        "file_size": file.size or 1,
    }
    if file.kind == "voice":
        one["duration"] = 1
    if file.kind == "photo":
        small = {**one, "file_id": f"{file.file_id}-small", "width": 90, "height": 90}
        return [small, {**one, "width": 900, "height": 900}]
    one |= {"mime_type": file.mime_type, "file_name": file.name}
    return {key: value for key, value in one.items() if value is not None}


def sent_message(
    shown: Shown, chat_id: str, bot: dict[str, Any], entities: Iterable[Entity], at: int, *, is_rich: bool
) -> dict[str, Any]:
    """Return a message of the bot as it looks now."""
    is_private = not chat_id.startswith("-")
    chat = {"id": int(chat_id), "type": "private" if is_private else "supergroup"}
    words, marks = ("caption", "caption_entities") if shown.attachments else ("text", "entities")
    message: dict[str, Any] = {"message_id": int(shown.message_id), "date": at, "chat": chat, "from": bot}
    if is_rich:  # its blocks are not kept apart
        message["rich_message"] = {"blocks": [{"type": "paragraph", "text": shown.text}]}
    elif shown.text:
        message |= {words: shown.text, marks: [_marked(one) for one in entities]}
    for file in shown.attachments:
        message[file.kind] = _file(file)
    if shown.thread_id:
        message |= {"message_thread_id": int(shown.thread_id), "is_topic_message": True}
    if shown.reply_to:
        message["reply_to_message"] = {"message_id": int(shown.reply_to), "date": at, "chat": chat}
    if shown.buttons:
        keys = [[{"text": one.label, "callback_data": one.value}] for one in shown.buttons]
        message["reply_markup"] = {"inline_keyboard": keys}
    return message


def _marked(entity: Entity) -> dict[str, Any]:
    one = {"type": entity.kind, "offset": entity.offset, "length": entity.length}
    more = {"url": entity.url, "language": entity.language}
    return {**one, **{key: value for key, value in more.items() if value is not None}}
