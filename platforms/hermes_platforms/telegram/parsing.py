"""From an update of Telegram to what somebody said. Pure, and never at a loss: whatever JSON comes, the
answer is an event or nothing (it was not said to us); also of what cannot be read.

Of a group's talk only what is meant for the bot is taken, if mentions are required: a mention, a command
that names it, a reply to something it wrote. A command that names another bot is never ours.

Two things in the fields are not what they seem. `message_thread_id` also stands at plain replies in groups
without topics; only with `is_topic_message` it is a topic. And in a topic every message is a reply to the
one that opened it, which nobody meant by it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import msgspec

from hermes_trio.platform import Attachment, MessageEvent, SessionSource

from .payload import UNSEEN, Message, Press, Pressed, Quoted, TelegramFile, Update

KINDS = ("message", "edited_message", "callback_query")
"""What Telegram is asked to tell."""

_COMMAND_TO = re.compile(r"/\w+@(\w+)")

GENERAL = "1"
"""The topic of a forum that has no number: our name for it."""
DIRECT = "direct-"
"""What our names begin with for the topics of a channel's direct messages: each is a person's, and Telegram
counts them apart from the topics of forums."""


@dataclass(frozen=True, slots=True)
class Bot:
    """Who we are there, and what we listen to."""

    id: int
    username: str = ""
    platform: str = "telegram"
    account: str = "main"
    require_mention: bool = True


def update_id_of(update: object) -> int | None:
    """The number by which an update is confirmed, whatever else is in it."""
    number = update.get("update_id") if isinstance(update, dict) else None
    return number if isinstance(number, int) and not isinstance(number, bool) else None


def album_of(update: object) -> str | None:
    """The album that a new message is a part of. Only its first one has words, and may name us in them."""
    message = update.get("message") if isinstance(update, dict) else None
    album = message.get("media_group_id") if isinstance(message, dict) else None
    return album if isinstance(album, str) else None


def parse(update: object, bot: Bot) -> MessageEvent | None:
    """What was said, if anything was and it was said to us."""
    try:
        read = msgspec.convert(update, Update)
    except (msgspec.ValidationError, OverflowError) as error:
        return _unreadable(update, bot, str(error))
    if read.callback_query is not None:
        return _press(read.callback_query, bot)
    message = read.message or read.edited_message
    if message is None or message.chat.type not in ("private", "group", "supergroup"):
        return None
    if not _is_somebody(message) or not (message.chat.is_direct or _is_for(message, bot)):
        return None
    edited = read.message is None
    if edited and not (message.edit_date and (message.text or message.caption)):
        return None  # a live location moves on every few seconds; other changes are no person's at all
    files, text = tuple(_files(message)), _text(message, bot)
    if not files and not text:
        return None  # somebody joined, a title was changed: nothing that was said
    if message.forward_origin is not None:  # somebody else's words, and so no command and no answer
        text = f"[Forwarded from {_in_brackets(message.forward_origin.name)}]\n{text}".rstrip("\n")
    if (named := _COMMAND_TO.match(text)) and bot.username and named[1].lower() != bot.username.lower():
        return None  # what another bot is told to do is nothing that we stop or restart for
    quoted = _quoted(message)
    return MessageEvent(
        source=_source(message, bot),
        text=text,
        message_id=str(message.message_id),
        kind="command" if text.startswith("/") else "text",
        attachments=files,
        reply_to=str(quoted.message_id) if quoted else None,
        reply_to_text=_words_of(message, quoted),
        sent_at=message.edit_date or message.date,
        edited=edited,
    )


def _unreadable(update: object, bot: Bot, why: str) -> MessageEvent:
    """An update that is not what we know of updates, as it came."""
    return MessageEvent(
        SessionSource(bot.platform, "", account=bot.account),
        f"{why}\n{json.dumps(update, ensure_ascii=False)}",
        message_id=f"update:{update_id_of(update)}",
        kind="unreadable",
    )


def _press(press: Press, bot: Bot) -> MessageEvent | None:
    if press.message is None or not press.data:  # below a message that was sent from an inline query
        return None
    who = press.sender
    return MessageEvent(
        source=_place(press.message, bot, str(who.id), who.name),
        text=press.data,
        message_id=press.id,
        kind="callback",
        reply_to=str(press.message.message_id),
    )


def _is_somebody(message: Message) -> bool:
    """Not another bot, and not a channel's post that Telegram copies into its group."""
    is_bot = message.sender is not None and message.sender.is_bot and message.sender_chat is None
    return not is_bot and not message.is_automatic_forward


def _is_for(message: Message, bot: Bot) -> bool:
    mine, named = f"@{bot.username}".lower(), False
    for text, entities in ((message.text, message.entities), (message.caption, message.caption_entities)):
        for entity in entities:
            marked = entity.of(text).lower()
            named |= entity.type == "bot_command" and marked.endswith(mine)
            named |= entity.type == "mention" and marked == mine
            named |= entity.type == "text_mention" and entity.user is not None and entity.user.id == bot.id
    quoted = _quoted(message)
    answers = quoted is not None and quoted.sender is not None and quoted.sender.id == bot.id
    return named or answers or not bot.require_mention


def _source(message: Message, bot: Bot) -> SessionSource:
    who = message.sender
    # Who speaks as a group or a channel shares the user of all who do.
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


def _words_of(message: Message, quoted: Quoted | None) -> str | None:
    """What it replies to: the part that was marked, which may be of another chat, or else all of it."""
    marked = message.quote.text if message.quote else ""
    return marked or (quoted.words if quoted else "") or None


def _text(message: Message, bot: Bot) -> str:
    text = message.text or message.caption
    if bot.username and not message.chat.is_direct:
        # Behind the mention may stand a command.
        text = re.sub(rf"(?i)\A\s*@{re.escape(bot.username)}\b[\s,:]*(?=\S)", "", text)
    return text or _in_words(message)


def _in_words(message: Message) -> str:
    """What was sent instead of words."""
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
    """A name that somebody has made up, so that it ends no bracket and no line."""
    return " ".join(name.split()).replace("[", "(").replace("]", ")")


def _files(message: Message) -> Iterator[Attachment]:
    if message.photo:
        largest = max(message.photo, key=lambda size: size.width)
        yield Attachment("photo", size=largest.file_size, file_id=largest.file_id)
    document = message.document if message.animation is None else None  # it is there a second time
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
