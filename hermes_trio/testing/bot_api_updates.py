"""What people say, as the updates in which a Bot API server tells it."""

from __future__ import annotations

import re
from typing import Any

from ..messages import Attachment, MessageEvent, SessionSource
from .bot_api_entities import utf16_length

_COMMAND = re.compile(r"(?:(?<=\s)|^)/[A-Za-z0-9_]+(?:@\w+)?")
_MENTION = re.compile(r"(?:(?<=\W)|^)@\w{3,}")


def update_of(number: int, event: MessageEvent, at: int) -> dict[str, Any]:
    """The update with this number that says so."""
    kind = "edited_message" if event.edited else "message"
    return {"update_id": number, kind: message_of(event, at)}


def message_of(event: MessageEvent, at: int) -> dict[str, Any]:
    """This, as a message of a person."""
    source = event.source
    message: dict[str, Any] = {
        "message_id": int(event.message_id or 0),
        "date": at,
        "chat": chat_of(source),
        "from": {"id": int(source.user_id or 0), "is_bot": False, "first_name": source.user_name or "Kim"},
    }
    if source.thread_id and source.thread_id != "1":
        message |= {"message_thread_id": int(source.thread_id), "is_topic_message": True}
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
    """A chat as messages name it."""
    chat_id = int(source.chat_id)
    if source.chat_type == "dm":
        return {"id": chat_id, "type": "private", "first_name": source.user_name or "Kim"}
    chat = {"id": chat_id, "type": "supergroup", "title": source.chat_name or "A group"}
    return {**chat, "is_forum": True} if source.thread_id else chat


def entities_of(text: str) -> list[dict[str, Any]]:
    """The commands and mentions that the server finds by itself."""
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
    if file.kind == "photo":
        small = {**one, "file_id": f"{file.file_id}-small", "width": 90, "height": 90}
        return [small, {**one, "width": 900, "height": 900}]
    one |= {"mime_type": file.mime_type, "file_name": file.name}
    return {key: value for key, value in one.items() if value is not None}
