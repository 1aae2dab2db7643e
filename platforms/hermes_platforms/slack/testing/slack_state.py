"""State of a Slack server for tests: its app, its files, and the events of people in Slack's form."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hermes_trio.platform import Attachment, MessageEvent, Traits
from hermes_trio.testing import WaitingEvent

from ...testing import HttpStage
from ..formatting import escaped
from ..manifest import SCOPES

TRAITS = Traits(limit=4000, edits=True, deletes=True, reacts=True, threads=True, buttons=True, finds=True)
KINDS = {"photo": "image/png", "voice": "audio/webm", "audio": "audio/mpeg", "video": "video/mp4"}
Delivered = dict[str, WaitingEvent]
"""Events that one connection has delivered and that are not acknowledged, by the ids of their envelopes."""


@dataclass(slots=True)
class Upload:
    """A file of the app that nobody sees yet."""

    name: str
    length: int
    data: bytes | None = None


class SlackState(HttpStage):
    """State of one app in a workspace."""

    def __init__(self, name: str, account: str) -> None:
        super().__init__(name, account, TRAITS)
        self.user_id, self.username, self.team_id = "UHERMES", "hermes_bot", "T1"
        self.token = "xoxb-simulated-token-of-nobody"  # noqa: S105
        self.app_token = "xapp-simulated-token-of-nobody"  # noqa: S105
        self.lets_in = True
        """The tokens are valid."""
        self.scopes = set(SCOPES)
        self.tickets: set[str] = set()
        self.deliveries: list[Delivered] = []
        """The deliveries of each open connection, the newest connection at the end."""
        self.acknowledged: list[str] = []
        """Ids of the acknowledged envelopes."""
        self.says_it_again = False
        """Each event is delivered twice, as Slack does when it gets no acknowledgement for three seconds."""
        self.file_url = ""
        """Address of the files of people; empty for this server."""
        self.uploads: dict[str, Upload] = {}
        self.sent: dict[str, list[str]] = {}
        """Keys of the messages of the app, by channel."""
        self._envelopes, self._numbers = itertools.count(1), itertools.count(1)
        self._commands: dict[int, tuple[str, str]] = {}

    # --- for tests ---

    def refuses(self) -> None:
        """Make the tokens invalid from now on."""
        self.lets_in = False

    def commands_given(self, command: str, text: str, *, chat: str = "42", user: str = "42") -> MessageEvent:
        """Give a slash command as a person."""
        event = self.event(text, chat=chat, user=user)
        self.deliver(event)
        self._commands[self._waiting[-1].number] = command, text
        return event

    @property
    def waiting(self) -> Sequence[WaitingEvent]:
        """Events that are not acknowledged."""
        return self._waiting

    # --- for the connections ---

    def delivered_elsewhere(self, here: Delivered) -> set[int]:
        """Return the events that were delivered on another connection, which is still there."""
        others = [one for one in self.deliveries if one is not here]
        return {event.number for delivered in others for event in delivered.values()}

    def envelope(self, waiting: WaitingEvent, attempt: int) -> dict[str, Any]:
        """Return an envelope with an event, under an id of its own."""
        kind, payload = self._payload(waiting)
        envelope = {
            "envelope_id": f"envelope-{next(self._envelopes)}",
            "type": kind,
            "payload": payload,
            "accepts_response_payload": kind != "events_api",
        }
        if kind == "events_api":
            envelope |= {"retry_attempt": attempt, "retry_reason": "timeout" if attempt else ""}
        return envelope

    # --- for the methods ---

    def ticket(self) -> str:
        """Return the address of a connection, which is good once."""
        ticket = f"ticket-{next(self._numbers)}"
        self.tickets.add(ticket)
        return f"ws://127.0.0.1:{self.port}/link/?ticket={ticket}"

    def messages_of(self, channel: str, thread: str | None) -> list[dict[str, Any]]:
        """Return the messages of the app in a channel, or in one of its threads."""
        keys = {self._chats.find(channel, key): key for key in self.sent.get(channel, ())}
        return [
            {
                "type": "message",
                "user": self.user_id,
                "bot_id": "BHERMES",
                "ts": one.message_id,
                "text": one.text,
                "metadata": {
                    "event_type": "hermes_trio_message",
                    "event_payload": {"key": keys[one.message_id]},
                },
            }
            for one in self.chat(channel).messages
            if one.thread_id == thread and one.message_id in keys
        ]

    # --- events of people ---

    def _payload(self, waiting: WaitingEvent) -> tuple[str, dict[str, Any]]:
        event = waiting.event
        if event.kind == "callback":
            return "interactive", self._press(event)
        if waiting.number in self._commands:
            return "slash_commands", self._command(event, *self._commands[waiting.number])
        message = self._message(event)
        about = {"token": "verification-token", "team_id": self.team_id, "type": "event_callback"}
        return "events_api", {**about, "event_id": f"Ev{waiting.number}", "event": message}

    def _message(self, event: MessageEvent) -> dict[str, Any]:
        source = event.source
        text = escaped(event.text).replace(f"@{self.username}", f"<@{self.user_id}>")
        message: dict[str, Any] = {
            "type": "message",
            "channel": source.chat_id,
            "channel_type": "im" if source.chat_type == "dm" else "channel",
            "user": source.user_id,
            "text": text,
            "ts": event.message_id,
            "event_ts": event.message_id,
        }
        if source.thread_id is not None:
            message["thread_ts"] = source.thread_id
        if event.attachments:
            message |= {"subtype": "file_share", "files": [self._file(one) for one in event.attachments]}
        return message

    def _press(self, event: MessageEvent) -> dict[str, Any]:
        source = event.source
        message = next(
            (one for one in self.chat(source.chat_id).messages if one.message_id == event.reply_to), None
        )
        name = "directmessage" if source.chat_type == "dm" else "channel"
        pressed = {"type": "message", "ts": event.reply_to}
        if message is not None and message.thread_id is not None:
            pressed["thread_ts"] = message.thread_id
        return {
            "type": "block_actions",
            "user": {"id": source.user_id, "username": f"person-{source.user_id}"},
            "trigger_id": event.message_id,
            "team": {"id": self.team_id},
            "channel": {"id": source.chat_id, "name": name},
            "message": pressed,
            "actions": [{"type": "button", "action_id": "press-0", "value": event.text}],
        }

    def _command(self, event: MessageEvent, command: str, text: str) -> dict[str, Any]:
        source = event.source
        return {
            "token": "verification-token",
            "team_id": self.team_id,
            "command": command,
            "text": text,
            "user_id": source.user_id,
            "channel_id": source.chat_id,
            "channel_name": "directmessage" if source.chat_type == "dm" else "channel",
            "trigger_id": event.message_id,
            "response_url": f"{self.base_url}/commands/answer",
        }

    def _file(self, file: Attachment) -> Mapping[str, object]:
        return {
            "id": file.file_id,
            "name": file.name or "file",
            "mimetype": file.mime_type or KINDS.get(file.kind, "application/octet-stream"),
            "size": file.size,
            "subtype": "slack_audio" if file.kind == "voice" else None,
        }
