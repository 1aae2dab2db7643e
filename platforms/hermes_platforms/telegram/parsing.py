"""Conversion of a Telegram update to an event. It is pure and raises for no JSON: the result is an event,
also for an update that cannot be read, or None for an update that is not addressed to the bot.

In a group where mentions are required, a message is addressed to the bot if it mentions the bot, names it in
a command, or replies to one of its messages. A command that names another bot is never for ours.

Two fields are misleading. `message_thread_id` is also set for plain replies in groups without topics; it is a
topic only with `is_topic_message`. In a topic every message is a reply to the message that opened it, which
is no reply of a person.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import msgspec

from hermes_trio.platform import STOPPED_DRAFT, Attachment, MessageEvent, SessionSource

from .payload import UNSEEN, Message, Press, Pressed, Quoted, StoppedDraft, TelegramFile, Update, words_of

KINDS = ("message", "edited_message", "callback_query", "stopped_message_generation")
"""Kinds of updates that the bot requests."""

_COMMAND_TO = re.compile(r"/\w+@(\w+)")

GENERAL = "1"
"""Our name for the general topic of a forum, which has no number in updates."""
DIRECT = "direct-"
"""Prefix of our names for the topics of a channel's direct messages. Each belongs to one person, and Telegram
numbers them separately from the topics of forums."""


@dataclass(frozen=True, slots=True)
class Bot:
    """Identity of the bot, and the messages that it accepts."""

    id: int
    username: str = ""
    platform: str = "telegram"
    account: str = "main"
    require_mention: bool = True


def update_id_of(update: object) -> int | None:
    """Return the number that confirms an update; None without a valid one."""
    number = update.get("update_id") if isinstance(update, dict) else None
    return number if isinstance(number, int) and not isinstance(number, bool) else None


def album_of(update: object) -> str | None:
    """Return the album of a new message. Only the first message of an album has text and can mention the
    bot."""
    message = update.get("message") if isinstance(update, dict) else None
    album = message.get("media_group_id") if isinstance(message, dict) else None
    return album if isinstance(album, str) else None


def parse(update: object, bot: Bot) -> MessageEvent | None:
    """Return the event of an update; None if it is none, or is not addressed to the bot."""
    try:
        read = msgspec.convert(update, Update)
    except (msgspec.ValidationError, OverflowError) as error:
        return _unreadable(update, bot, str(error))
    if read.callback_query is not None:
        return _press(read.callback_query, bot)
    if read.stopped_message_generation is not None:
        return _stopped_draft(read.stopped_message_generation, read.update_id, bot)
    message = read.message or read.edited_message
    if message is None or message.chat.type not in ("private", "group", "supergroup"):
        return None
    if not _is_from_person(message) or not (message.chat.is_direct or _addresses_bot(message, bot)):
        return None
    edited = read.message is None
    if edited and not (message.edit_date and (message.text or message.caption)):
        return None  # a live location moves every few seconds; other edits come from no person
    files, text = tuple(_files(message)), _text(message, bot)
    if not files and not text:
        return None  # a service message: somebody joined, a title was changed
    if message.forward_origin is not None:  # written by somebody else, so it is no command and no answer
        text = f"[Forwarded from {_in_brackets(message.forward_origin.name)}]\n{text}".rstrip("\n")
    if (named := _COMMAND_TO.match(text)) and bot.username and named[1].lower() != bot.username.lower():
        return None  # a command for another bot must not stop or restart ours
    quoted = _quoted(message)
    return MessageEvent(
        source=_source(message, bot),
        text=text,
        message_id=str(message.message_id),
        kind="command" if text.startswith("/") else "text",
        attachments=files,
        reply_to=str(quoted.message_id) if quoted else None,
        reply_to_text=_quoted_text(message, quoted),
        sent_at=message.edit_date or message.date,
        edited=edited,
    )


def _unreadable(update: object, bot: Bot, why: str) -> MessageEvent:
    """Return an event with an update that has an unknown form, as it came."""
    return MessageEvent(
        SessionSource(bot.platform, "", account=bot.account),
        f"{why}\n{json.dumps(update, ensure_ascii=False)}",
        message_id=f"update:{update_id_of(update)}",
        kind="unreadable",
    )


def _press(press: Press, bot: Bot) -> MessageEvent | None:
    if press.message is None or not press.data:  # the button belongs to a message of an inline query
        return None
    who = press.sender
    return MessageEvent(
        source=_place(press.message, bot, str(who.id), who.name),
        text=press.data,
        message_id=press.id,
        kind="callback",
        reply_to=str(press.message.message_id),
    )


def _stopped_draft(stopped: StoppedDraft, update_id: int, bot: Bot) -> MessageEvent:
    """Return the event of a stopped draft. Drafts are in private chats, whose id is that of the person."""
    thread_id = None if stopped.message_thread_id is None else str(stopped.message_thread_id)
    person = str(stopped.chat.id)
    return MessageEvent(
        source=SessionSource(bot.platform, person, account=bot.account, user_id=person, thread_id=thread_id),
        text=f"{STOPPED_DRAFT}{stopped.draft_id}",
        message_id=f"update:{update_id}",
        kind="callback",
    )


def _is_from_person(message: Message) -> bool:
    """Return True unless the sender is another bot, or the message is a channel's post in its group."""
    is_bot = message.sender is not None and message.sender.is_bot and message.sender_chat is None
    return not is_bot and not message.is_automatic_forward


def _addresses_bot(message: Message, bot: Bot) -> bool:
    mine, named = f"@{bot.username}".lower(), False
    for text, entities in ((message.text, message.entities), (message.caption, message.caption_entities)):
        for entity in entities:
            words = entity.marked(text).lower()
            named |= entity.type == "bot_command" and words.endswith(mine)
            named |= entity.type == "mention" and words == mine
            named |= entity.type == "text_mention" and entity.user is not None and entity.user.id == bot.id
    quoted = _quoted(message)
    answers = quoted is not None and quoted.sender is not None and quoted.sender.id == bot.id
    return named or answers or not bot.require_mention


def _source(message: Message, bot: Bot) -> SessionSource:
    who = message.sender
    # People who write as a group or a channel share one user id, so the id of the chat is used.
    user_id, user_name = (who.id, who.name) if who else (None, None)
    if message.sender_chat is not None:
        user_id, user_name = message.sender_chat.id, message.sender_chat.title
    return _place(message, bot, None if user_id is None else str(user_id), user_name)


def _place(message: Message | Pressed, bot: Bot, user_id: str | None, user_name: str | None) -> SessionSource:
    return SessionSource(
        platform=bot.platform,
        account=bot.account,
        chat_id=str(message.chat.id),
        chat_type="dm" if message.chat.is_direct else "group",
        chat_name=message.chat.title,
        user_id=user_id,
        user_name=user_name,
        thread_id=_thread(message),
    )


def _thread(message: Message | Pressed) -> str | None:
    if message.direct_messages_topic is not None:
        return f"{DIRECT}{message.direct_messages_topic.topic_id}"
    if message.is_topic_message and message.message_thread_id is not None:
        return str(message.message_thread_id)
    return GENERAL if message.chat.is_forum and not message.chat.is_direct else None


def _quoted(message: Message) -> Quoted | None:
    quoted = message.reply_to_message
    return None if quoted is None or quoted.forum_topic_created is not None else quoted


def _quoted_text(message: Message, quoted: Quoted | None) -> str | None:
    """Return the quoted text: the selected part, which may be of another chat, or the whole message."""
    marked = message.quote.text if message.quote else ""
    return marked or (quoted.words if quoted else "") or None


def _text(message: Message, bot: Bot) -> str:
    text = message.text or message.caption or words_of(message.rich_message)
    if bot.username and not message.chat.is_direct:
        # A command may follow the mention.
        text = re.sub(rf"(?i)\A\s*@{re.escape(bot.username)}\b[\s,:]*(?=\S)", "", text)
    return text or _description(message)


def _description(message: Message) -> str:
    """Return a text for a message without one."""
    if message.sticker:
        return message.sticker.emoji
    if message.location:
        at = f"Location: {message.location.latitude}, {message.location.longitude}"
        return f"{at} ({message.venue.title}, {message.venue.address})" if message.venue else at
    if contact := message.contact:
        return f"Contact: {contact.first_name} {contact.last_name}".strip() + f", {contact.phone_number}"
    if message.poll:
        return "\n- ".join([f"Poll: {message.poll.question}", *(one.text for one in message.poll.options)])
    if message.dice:
        return f"{message.dice.emoji} {message.dice.value}"
    unseen = [kind.replace("_", " ") for kind in UNSEEN if getattr(message, kind) is not None]
    return f"[Sent along: {', '.join(unseen)}; it cannot be seen from here]" if unseen else ""


def _in_brackets(name: str) -> str:
    """Return a name that people choose, without brackets and line breaks."""
    return " ".join(name.split()).replace("[", "(").replace("]", ")")


def _files(message: Message) -> Iterator[Attachment]:
    if message.photo:
        largest = max(message.photo, key=lambda size: size.width)
        yield Attachment("photo", size=largest.file_size, file_id=largest.file_id)
    document = (
        message.document if message.animation is None else None
    )  # an animation is listed as a document too
    if document:
        yield _attachment("document", document)
    if message.voice:
        yield _attachment("voice", message.voice)
    if message.audio:
        yield _attachment("audio", message.audio)
    for video in (message.video, message.video_note, message.animation):
        if video:
            yield _attachment("video", video)
    if message.sticker:
        yield _attachment("sticker", message.sticker)


def _attachment(kind: Any, file: TelegramFile) -> Attachment:
    return Attachment(
        kind, name=file.file_name, mime_type=file.mime_type, size=file.file_size, file_id=file.file_id
    )
