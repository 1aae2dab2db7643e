"""Conversion of what Slack delivers to events. It is pure and raises for no JSON: the result is an event,
also for a payload that cannot be read, or None for one that is not addressed to the app.

In a channel where mentions are required, a message is addressed to the app if it mentions the app, or is in a
thread that the app has begun or was mentioned in. Messages of apps are for nobody: two programs would answer
each other for ever.

A message in a channel begins a thread of its own, if answers go into threads.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from hermes_trio.platform import Attachment, MessageEvent, SessionSource

from .payload import WRITTEN, Delivery, Message, Press, SlackFile, SlashCommand

_MENTION = re.compile(r"<@([^>|\s]+)(?:\|[^>]*)?>")
_LINK = re.compile(r"<([^>|]*)(?:\|([^>]*))?>")
_SPECIAL = {"&lt;": "<", "&gt;": ">", "&amp;": "&"}
_COMMAND = re.compile(r"!([a-z0-9_-]+)(?=\s|\Z)")

DIRECT = "directmessage"
"""Name that Slack gives to a direct chat where it names channels."""


@dataclass(frozen=True, slots=True)
class App:
    """Identity of the app, and the messages that it accepts."""

    user_id: str
    team_id: str | None = None
    platform: str = "slack"
    account: str = "main"
    require_mention: bool = True
    reply_in_thread: bool = True
    commands: frozenset[str] = field(default=frozenset(), repr=False)
    """Names of the commands that may be written with an exclamation mark."""


def read_envelope(kind: str, payload: object, app: App) -> tuple[Message, str | None] | MessageEvent | None:
    """Return the message of an envelope with the id of its workspace, or the event of a press or a command;
    None if it is nothing for the app. A payload that cannot be read is an event with its content."""
    try:
        match kind:
            case "events_api":
                delivery = msgspec.convert(payload, Delivery)
                if delivery.event.get("type") not in ("message", "app_mention"):
                    return None
                return msgspec.convert(delivery.event, Message), delivery.team_id
            case "interactive":
                return _pressed(msgspec.convert(payload, Press), app)
            case "slash_commands":
                return _commanded(msgspec.convert(payload, SlashCommand), app)
            case _:
                return None
    except (msgspec.ValidationError, OverflowError) as error:
        return unreadable(payload, app, str(error))


def unreadable(payload: object, app: App, why: str) -> MessageEvent:
    """Return an event with a payload that has an unknown form, as it came."""
    known = payload if isinstance(payload, Mapping) else {}
    number = known.get("event_id") or known.get("trigger_id")
    return MessageEvent(
        SessionSource(app.platform, "", account=app.account),
        f"{why}\n{json.dumps(_without_token(payload), ensure_ascii=False)}",
        message_id=f"payload:{number}",
        kind="unreadable",
    )


def _without_token(payload: object) -> object:
    """Leave out the tokens of a payload, and the address under which anybody could answer it."""
    if isinstance(payload, Mapping):
        return {name: one for name, one in payload.items() if name not in ("token", "response_url")}
    return payload


def is_addressed(message: Message, app: App, threads: Collection[tuple[str, str]]) -> bool:
    """Return True for a message of a person to the app. `threads` are those that the app takes part in."""
    is_of_person = message.bot_id is None and message.user not in (None, app.user_id)
    if not is_of_person or message.subtype not in WRITTEN or not (message.text or message.files):
        return False
    if is_direct(message) or not app.require_mention or message.type == "app_mention":
        return True
    thread = message.thread_ts
    takes_part = thread is not None and (message.channel, thread) in threads
    return takes_part or message.parent_user_id == app.user_id or names(message.text, app)


def is_direct(message: Message) -> bool:
    """Return True for a message of a direct chat. The id says it where the event does not."""
    if message.channel_type is None:
        return message.channel.startswith("D")
    return message.channel_type == "im"


def names(text: str, app: App) -> bool:
    """Return True if the app is mentioned."""
    return any(found[1] == app.user_id for found in _MENTION.finditer(text))


def thread_of(message: Message, app: App) -> str | None:
    """Return the thread that an answer goes into."""
    if message.thread_ts is None and app.reply_in_thread and not is_direct(message):
        return message.ts
    return message.thread_ts


def mentioned(text: str) -> list[str]:
    """Return the ids of the people whose names a text needs."""
    return [found[1] for found in _MENTION.finditer(text)]


def event_of(message: Message, app: App, team_id: str | None, people: Mapping[str, str]) -> MessageEvent:
    """Return the event of a message that is addressed to the app. `people` are names by ids."""
    text = message.text
    if not is_direct(message):
        # A command may follow the mention.
        text = re.sub(rf"\A\s*<@{re.escape(app.user_id)}>[\s,:]*(?=\S)", "", text)
    text = readable(text, people).strip()
    if (found := _COMMAND.match(text)) is not None and found[1] in app.commands:
        text = f"/{text[1:]}"
    return MessageEvent(
        SessionSource(
            platform=app.platform,
            account=app.account,
            chat_id=message.channel,
            chat_type="dm" if is_direct(message) else "group",
            user_id=message.user,
            user_name=people.get(message.user or ""),
            thread_id=thread_of(message, app),
            scope_id=team_id,
        ),
        text,
        message_id=message.ts,
        kind="command" if text.startswith("/") else "text",
        attachments=tuple(_attachment(file) for file in message.files),
        sent_at=_time(message.ts),
    )


def readable(text: str, people: Mapping[str, str]) -> str:
    """Return a text of Slack as people see it: names for ids, links as they are shown, no escapes."""
    text = _MENTION.sub(lambda found: f"@{people.get(found[1], found[1])}", text)
    text = _LINK.sub(_shown, text)
    return re.sub("&(?:lt|gt|amp);", lambda found: _SPECIAL[found[0]], text)


def _shown(found: re.Match[str]) -> str:
    target, label = found[1], found[2]
    if target.startswith("#"):
        return f"#{label or target[1:]}"
    if target.startswith("!"):
        return label or f"@{target[1:].partition('^')[0]}"
    return target if label is None or label in (target, target.partition("://")[2]) else f"{label} ({target})"


def _pressed(press: Press, app: App) -> MessageEvent | None:
    button = next((one for one in press.actions if one.type == "button"), None)
    channel, message = press.channel, press.message
    if press.type != "block_actions" or button is None or channel is None or message is None:
        return None
    is_direct_chat = channel.name == DIRECT or channel.id.startswith("D")
    # The thread of an answer in a channel, so that the press belongs to the session of the answer.
    source = SessionSource(
        app.platform,
        channel.id,
        account=app.account,
        chat_type="dm" if is_direct_chat else "group",
        user_id=press.user.id,
        thread_id=message.thread_ts,
    )
    return MessageEvent(
        source, button.value or "", message_id=press.trigger_id, kind="callback", reply_to=message.ts
    )


def _commanded(command: SlashCommand, app: App) -> MessageEvent:
    name = command.command.removeprefix("/")
    words = f"{name} {command.text}" if name in app.commands else command.text or "help"
    is_direct_chat = command.channel_name == DIRECT or command.channel_id.startswith("D")
    source = SessionSource(
        app.platform,
        command.channel_id,
        account=app.account,
        chat_type="dm" if is_direct_chat else "group",
        user_id=command.user_id,
        scope_id=command.team_id,
    )
    return MessageEvent(
        source, f"/{words.strip().lstrip('/!')}", message_id=command.trigger_id, kind="command"
    )


def _attachment(file: SlackFile) -> Attachment:
    kind: Any = (file.mimetype or "").partition("/")[0]
    kind = {"image": "photo", "video": "video", "audio": "audio"}.get(kind, "document")
    if file.subtype == "slack_audio":
        kind = "voice"
    return Attachment(kind, name=file.name, mime_type=file.mimetype, size=file.size, file_id=file.id)


def _time(ts: str) -> float | None:
    try:
        return float(ts)
    except ValueError:
        return None
