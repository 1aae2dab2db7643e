"""Conversion of what Discord dispatches to events. It is pure and raises for no JSON: the result is an event,
also for a payload that cannot be read, or None for one that is not addressed to the bot.

On a server where mentions are required, a message is addressed to the bot if it mentions the bot or replies
to it. Messages of bots and of webhooks are for nobody: two programs would answer each other for ever.

A thread is a channel of its own at Discord. Here it is a thread of its channel, and the ids of its messages
carry it, because Discord changes a message only where it is.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import msgspec

from hermes_trio.platform import Attachment, MessageEvent, SessionSource

from .payload import (
    COMMAND,
    DEFAULT,
    FORWARD,
    PRESS,
    REPLY,
    VOICE_MESSAGE,
    Channel,
    DiscordFile,
    Interaction,
    Message,
)

_MENTION = re.compile(r"<@!?(\d+)>")


@dataclass(frozen=True, slots=True)
class Bot:
    """Identity of the bot, and the messages that it accepts."""

    id: str
    username: str = ""
    platform: str = "discord"
    account: str = "main"
    require_mention: bool = True


def read_message(payload: object, bot: Bot) -> Message | MessageEvent | None:
    """Return a message of a person that is addressed to the bot; None for any other one. A payload that
    cannot be read is an event with its content."""
    try:
        message = msgspec.convert(payload, Message)
    except (msgspec.ValidationError, OverflowError) as error:
        if isinstance(payload, dict) and "author" not in payload:
            return None  # an update that changes no text
        return unreadable(payload, bot, str(error))
    is_of_person = not message.author.bot and message.webhook_id is None
    return message if is_of_person and _is_addressed(message, bot) else None


def read_interaction(payload: object, bot: Bot) -> Interaction | MessageEvent | None:
    """Return the press of a button or a slash command; None for an interaction of another kind."""
    try:
        interaction = msgspec.convert(payload, Interaction)
    except (msgspec.ValidationError, OverflowError) as error:
        return unreadable(payload, bot, str(error))
    is_known = interaction.type in (COMMAND, PRESS) and interaction.data is not None
    return interaction if is_known and interaction.channel_id and interaction.person else None


def unreadable(payload: object, bot: Bot, why: str) -> MessageEvent:
    """Return an event with a payload that has an unknown form, as it came."""
    number = payload.get("id") if isinstance(payload, dict) else None
    return MessageEvent(
        SessionSource(bot.platform, "", account=bot.account),
        f"{why}\n{json.dumps(_without_token(payload), ensure_ascii=False)}",
        message_id=f"payload:{number}",
        kind="unreadable",
    )


def _without_token(payload: object) -> object:
    """Leave out the token of an interaction, with which anybody could answer it."""
    if isinstance(payload, dict):
        return {name: value for name, value in payload.items() if name != "token"}
    return payload


def _is_addressed(message: Message, bot: Bot) -> bool:
    if message.type not in (DEFAULT, REPLY):
        return False
    quoted = message.referenced_message
    answers = quoted is not None and quoted.author.id == bot.id
    names = any(user.id == bot.id for user in message.mentions)
    return message.guild_id is None or not bot.require_mention or answers or names


def event_of_message(message: Message, bot: Bot, channel: Channel, *, edited: bool) -> MessageEvent | None:
    """Return the event of a message that is addressed to the bot; None if it has no content."""
    files = tuple(_attachment(file, message, channel) for file in message.attachments)
    text = _text(message, bot)
    if not (files or text):
        return None
    quoted, reference = message.referenced_message, message.message_reference
    replies = message.type == REPLY and reference is not None and reference.message_id is not None
    return MessageEvent(
        source=_source(
            bot,
            channel,
            message.guild_id,
            message.author.id,
            (message.member and message.member.nick) or message.author.name,
        ),
        text=text,
        message_id=written_id(message.id, channel),
        kind="command" if text.startswith("/") else "text",
        attachments=files,
        reply_to=written_id(str(reference.message_id), channel) if replies and reference else None,
        reply_to_text=(_named(quoted.content, message) or None) if quoted else None,
        sent_at=_time(message.edited_timestamp if edited else message.timestamp),
        edited=edited,
    )


def event_of_interaction(interaction: Interaction, bot: Bot, channel: Channel) -> MessageEvent:
    """Return the event of a press or of a command."""
    person, data = interaction.person, interaction.data
    assert person is not None and data is not None  # noqa: S101, PT018 - checked when it was read
    nick = interaction.member.nick if interaction.member else None
    source = _source(bot, channel, interaction.guild_id, person.id, nick or person.name)
    if interaction.type == PRESS:
        pressed = None if interaction.message is None else written_id(interaction.message.id, channel)
        return MessageEvent(
            source, data.custom_id, message_id=interaction.id, kind="callback", reply_to=pressed
        )
    words = " ".join(str(one.value) for one in data.options if isinstance(one.value, str | int | float))
    return MessageEvent(source, f"/{data.name} {words}".rstrip(), message_id=interaction.id, kind="command")


def written_id(message_id: str, channel: Channel) -> str:
    """Return the id of a message as the gateway knows it: with its thread, if it is in one."""
    return f"{channel.id}/{message_id}" if channel.is_thread else message_id


def place_of(chat_id: str, written: str) -> tuple[str, str]:
    """Return the channel and the id of a message at Discord."""
    thread, _, message_id = written.rpartition("/")
    return thread or chat_id, message_id


def _source(
    bot: Bot, channel: Channel, guild_id: str | None, user_id: str, user_name: str | None
) -> SessionSource:
    return SessionSource(
        platform=bot.platform,
        account=bot.account,
        chat_id=channel.chat_id,
        chat_type="dm" if guild_id is None else "group",
        chat_name=channel.name,
        user_id=user_id,
        user_name=user_name or None,
        thread_id=channel.id if channel.is_thread else None,
        scope_id=guild_id,
    )


def _text(message: Message, bot: Bot) -> str:
    text = message.content
    if message.guild_id is not None:
        # A command may follow the mention.
        text = re.sub(rf"\A\s*<@!?{re.escape(bot.id)}>[\s,:]*(?=\S)", "", text)
    text = _named(text, message).strip()
    if message.message_reference is not None and message.message_reference.type == FORWARD:
        # Written by somebody else, so it is no command and no answer.
        forwarded = "\n".join(one.message.content for one in message.message_snapshots)
        text = f"[Forwarded]\n{forwarded}\n{text}".rstrip()
    stickers = [f"[Sticker: {one.name}]" for one in message.sticker_items]
    polls = ["[A poll; it cannot be seen from here]"] if message.poll is not None else []
    return "\n".join(filter(None, [text, *stickers, *polls]))


def _named(text: str, message: Message) -> str:
    """Replace the ids of people by their names."""
    names = {user.id: user.name for user in message.mentions if user.name}
    return _MENTION.sub(lambda found: f"@{names[found[1]]}" if found[1] in names else found[0], text)


def _attachment(file: DiscordFile, message: Message, channel: Channel) -> Attachment:
    kind: Any = (file.content_type or "").partition("/")[0]
    kind = {"image": "photo", "video": "video", "audio": "audio"}.get(kind, "document")
    if message.flags & VOICE_MESSAGE:
        kind = "voice"
    return Attachment(
        kind,
        name=file.filename or None,
        mime_type=file.content_type,
        size=file.size,
        # The address of a file is good for a day; its message is good for ever.
        file_id=f"{channel.id}/{message.id}/{file.id}",
    )


def _time(written: str | None) -> float | None:
    try:
        return None if written is None else datetime.fromisoformat(written).timestamp()
    except (ValueError, OverflowError):
        return None
