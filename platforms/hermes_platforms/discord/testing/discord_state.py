"""State of a Discord server for tests: its bot, its channels, and the session of its gateway.

A message is dispatched in the session of the bot, also while its connection is away. In a session that the
server has forgotten nothing is dispatched: those messages are in their channels only.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from hermes_trio.platform import Attachment, MessageEvent, Traits
from hermes_trio.testing import WaitingEvent

from ...testing import HttpStage

TRAITS = Traits(
    limit=2000,
    edits=True,
    deletes=True,
    typing=True,
    reacts=True,
    threads=True,
    buttons=True,
    takes_keys_for=180.0,
)
KINDS = {"photo": "image/png", "voice": "audio/ogg", "audio": "audio/mpeg", "video": "video/mp4"}
VOICE_MESSAGE = 1 << 13

_EMPTY: Mapping[str, Any] = {
    "type": 0,
    "timestamp": "2026-11-19T12:00:00.000000+00:00",
    "edited_timestamp": None,
    "tts": False,
    "pinned": False,
    "mention_everyone": False,
    "mentions": [],
    "mention_roles": [],
    "attachments": [],
    "embeds": [],
    "components": [],
}
"""The fields of every message."""


class DiscordState(HttpStage):
    """State of one bot at Discord."""

    def __init__(self, name: str, account: str) -> None:
        super().__init__(name, account, TRAITS)
        self.bot_id, self.username = "900000000000000001", "hermes_bot"
        self.token = f"{self.bot_id}.GsimuL.of-nobody-0000000000000000000"
        self.lets_in = True
        """The token is valid."""
        self.allows_content = True
        """The bot may ask for the content of all messages."""
        self.sessions_left = 1000
        self.heartbeat = 0.25
        """Seconds between heartbeats. On a busy machine one may come late, and the session is resumed."""
        self.answers_heartbeats = True
        self.identified: list[int] = []
        """Intents of the sessions that were begun."""
        self.resumed: list[int] = []
        """Numbers after which the session was resumed."""
        self.threads: dict[str, str] = {}
        """The channels of the threads."""
        self.commands: list[dict[str, Any]] = []
        """The slash commands."""
        self.acknowledged: list[tuple[str, int]] = []
        """Interactions that were answered, with the types of the answers."""
        self.limits: dict[str, tuple[int, float]] = {}
        """Messages that a channel takes in so many seconds."""
        self.session_id: str | None = None
        self.log: list[dict[str, Any]] = []
        """The dispatches of the session."""
        self.refusals = 0
        """Messages that were one too many for their channel."""
        self.posts: dict[str, list[dict[str, Any]]] = {}
        """Messages of people in their channels."""
        self._numbered: dict[int, int] = {}
        """The number of the dispatch of each event that was dispatched, by the number of the event."""
        self._missed: set[int] = set()
        self._posted: set[int] = set()
        self._sessions = itertools.count(1)
        self._keys = itertools.count(1)

    @property
    def gateway_url(self) -> str:
        """Address of the gateway."""
        return f"ws://127.0.0.1:{self.port}"

    def new_key(self) -> str:
        """Return a new key for a message without a nonce."""
        return f"sent-{next(self._keys)}"

    # --- for tests ---

    def expires(self) -> None:
        """Forget the session, and close its connection. What was not stored is in the channels only."""
        self._note_posts()
        self.session_id = None
        self.log.clear()
        self._missed |= {one.number for one in self._waiting}
        self.drop()

    def refuses(self) -> None:
        """Make the token invalid from now on."""
        self.lets_in = False

    def thread(self, thread_id: str, of: str) -> None:
        """Open a thread in a channel."""
        self.threads[thread_id] = of

    def commands_given(self, name: str, *, user: str = "42") -> str:
        """Give a slash command as a person, in the direct chat. Return the id of the interaction."""
        number = str(next(self._ids))
        data: dict[str, Any] = {
            "id": number,
            "type": 2,
            "token": f"interaction-token-{number}",
            "channel_id": user,
        }
        data |= {"channel": self.channel(user), "user": {"id": user, "username": f"person-{user}"}}
        self.dispatch("INTERACTION_CREATE", {**data, "data": {"name": name}})
        return number

    @property
    def waiting(self) -> Sequence[WaitingEvent]:
        """Events that are not stored."""
        return self._waiting

    # --- for the gateway ---

    def begin_session(self) -> str:
        """Begin a session. What was written while there was none is missed, unless it is the first one."""
        self._note_posts()
        if self.identified[1:]:
            self._missed |= {one.number for one in self._waiting}
        self.session_id = f"session-{next(self._sessions)}"
        self.log.clear()
        self._numbered.clear()
        return self.session_id

    def dispatch(self, kind: str, data: object) -> None:
        """Add a dispatch to the session."""
        self.log.append({"op": 0, "s": len(self.log) + 1, "t": kind, "d": data})
        self.changed.set()

    def dispatch_waiting(self) -> None:
        """Dispatch the events that are new in this session."""
        self._note_posts()
        for one in self._waiting:
            if one.number not in self._numbered and one.number not in self._missed:
                self._numbered[one.number] = len(self.log) + 1
                self.log.append({"op": 0, "s": len(self.log) + 1, **self._dispatched(one)})

    def confirm(self, number: int) -> None:
        """Note that every dispatch up to this one is stored."""
        for one in list(self._waiting):
            if self._numbered.get(one.number, number + 1) <= number:
                self.accept(one)

    # --- for the methods ---

    def written(self, channel_id: str, after: str) -> list[dict[str, Any]]:
        """Return the messages of people in a channel after this one."""
        self._note_posts()
        found = [one for one in self.posts.get(channel_id, ()) if int(one["id"]) > int(after)]
        for waiting in list(self._waiting):
            if waiting.number in self._missed and any(one["id"] == waiting.event.message_id for one in found):
                self.accept(waiting)
        return found

    def place(self, channel_id: str) -> tuple[str, str | None]:
        """Return the chat and the thread of a channel."""
        parent = self.threads.get(channel_id)
        return (channel_id, None) if parent is None else (parent, channel_id)

    @property
    def user(self) -> dict[str, Any]:
        """The bot in the form of the API."""
        return _user(self.bot_id, self.username) | {"bot": True}

    def shown_message(self, chat_id: str, message_id: str) -> dict[str, Any]:
        """Return a message of the bot in the form of the API."""
        message = {**_EMPTY, "id": message_id, "channel_id": chat_id, "author": self.user, "content": ""}
        for shown in self.chat(chat_id).messages:  # a repeat of a message that was deleted has none
            if shown.message_id == message_id:
                message |= {"channel_id": shown.thread_id or chat_id, "content": shown.text}
        return message

    # --- events of people ---

    def _note_posts(self) -> None:
        """Note the messages of people that are new in their channels."""
        for one in self._waiting:
            if one.number not in self._posted and one.event.kind != "callback":
                self._posted.add(one.number)
                data = self._message(one.event)
                self.posts.setdefault(data["channel_id"], []).append(data)

    def _dispatched(self, waiting: WaitingEvent) -> dict[str, Any]:
        event = waiting.event
        if event.kind == "callback":
            return {"t": "INTERACTION_CREATE", "d": self._interaction(event)}
        data = self._message(event)
        if event.source.chat_type != "dm":
            data["guild_id"] = "1"
        return {"t": "MESSAGE_UPDATE" if event.edited else "MESSAGE_CREATE", "d": data}

    def _message(self, event: MessageEvent) -> dict[str, Any]:
        source, stamp = event.source, "2026-11-19T12:00:00.000000+00:00"
        names_bot = f"@{self.username}" in event.text
        data: dict[str, Any] = {
            **_EMPTY,
            "id": event.message_id,
            "channel_id": self._channel(event),
            "author": _person(event),
            "content": event.text.replace(f"@{self.username}", f"<@{self.bot_id}>"),
            "timestamp": stamp,
            "edited_timestamp": stamp if event.edited else None,
            "mentions": [self.user] if names_bot else [],
            "attachments": [self._file(event, one) for one in event.attachments],
            "flags": VOICE_MESSAGE if any(one.kind == "voice" for one in event.attachments) else 0,
        }
        if event.reply_to is not None:
            quoted_id = event.reply_to.rpartition("/")[2]
            quoted = next((m for m in self.chat(source.chat_id).messages if m.message_id == quoted_id), None)
            data["type"] = 19
            data["message_reference"] = {"type": 0, "message_id": quoted_id}
            if quoted is not None:
                data["referenced_message"] = self.shown_message(source.chat_id, quoted_id)
        return data

    def _interaction(self, event: MessageEvent) -> dict[str, Any]:
        data: dict[str, Any] = {
            "id": event.message_id,
            "type": 3,
            "token": f"interaction-token-{event.message_id}",
            "channel_id": self._channel(event),
            "channel": self.channel(self._channel(event)),
            "data": {"custom_id": event.text, "component_type": 2},
            "message": {"id": event.reply_to},
        }
        if event.source.chat_type == "dm":
            return {**data, "user": _person(event)}
        return {**data, "guild_id": "1", "member": {"user": _person(event)}}

    def channel(self, channel_id: str) -> dict[str, Any]:
        """Return a channel in the form of the API."""
        parent = self.threads.get(channel_id)
        return {"id": channel_id, "type": 0 if parent is None else 11, "parent_id": parent, "name": "chat"}

    def _channel(self, event: MessageEvent) -> str:
        source = event.source
        if source.thread_id is None:
            return source.chat_id
        self.threads.setdefault(source.thread_id, source.chat_id)
        return source.thread_id

    def _file(self, event: MessageEvent, file: Attachment) -> Mapping[str, object]:
        return {
            "id": file.file_id,
            "filename": file.name or "file",
            "content_type": file.mime_type or KINDS.get(file.kind, "application/octet-stream"),
            "size": file.size,
            "url": f"{self.base_url}/files/{file.file_id}",
        }


def _person(event: MessageEvent) -> dict[str, Any]:
    user = event.source.user_id
    return _user(user, f"person-{user}", event.source.user_name)


def _user(user_id: str | None, username: str, name: str | None = None) -> dict[str, Any]:
    return {"id": user_id, "username": username, "discriminator": "0", "global_name": name, "avatar": None}
