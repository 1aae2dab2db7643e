"""State of a Bot API server for tests: its bot, its webhook, and the updates that wait."""

from __future__ import annotations

import itertools
import time
from collections.abc import Mapping, Sequence
from typing import Any

import trio

from hermes_trio.platform import MessageEvent, SessionSource, Traits
from hermes_trio.testing import WaitingEvent

from ...testing import HttpStage
from .bot_api_entities import Entity
from .bot_api_updates import sent_message, update_of

TRAITS = Traits(
    limit=32_768, edits=True, deletes=True, typing=True, drafts=True, reacts=True, threads=True, buttons=True
)


class BotState(HttpStage):
    """State of one bot at Telegram. The methods of the API and the webhook read and change it."""

    def __init__(self, name: str, account: str) -> None:
        super().__init__(name, account, TRAITS)
        self.bot_id, self.username = 123456, "hermes_bot"
        self.token = f"{self.bot_id}:AAsimulated-token-of-nobody-000000000"
        self.lets_in = True
        """The token is valid."""
        self.entities: dict[str, list[Entity]] = {}
        """Formatting of the bot's messages, by message id."""
        self.rich: set[str] = set()
        """Ids of the rich messages of the bot."""
        self.webhook, self.webhook_secret = "", ""
        self.brought_in_vain = 0
        """Number of updates that the webhook did not accept."""
        self.bringing = trio.CancelScope()
        """Scope of the current request to the webhook."""
        self.hides_sizes = False
        """Leave the sizes of files out of the answers."""
        self.hears_all = False
        """The bot gets all messages of groups, also those that do not name it."""
        self.stoppable = False
        """The last draft has a stop button."""
        self.commands: dict[str, str] = {}
        """The command menu."""
        self.pressed: list[str] = []
        """Ids of the presses that were answered."""
        self.lost_threads: set[tuple[str, str]] = set()
        """Topics that were deleted: pairs of chat id and thread id."""
        self.lost_messages: set[str] = set()
        """Ids of messages that were deleted, and can no longer be replied to."""
        self.lost_files: set[str] = set()
        """Ids of files that have a path and can no longer be downloaded."""
        self.raw: dict[int, object] = {}
        """Updates that wait and were delivered, by their numbers."""
        self._keys = itertools.count(1)
        self._poll = trio.CancelScope()

    # --- for tests ---

    def sends(self, update: Mapping[str, object]) -> trio.Event:
        """Deliver an update as it is, with a number. The returned event is set once it is confirmed."""
        waiting = WaitingEvent(next(self._numbers), MessageEvent(SessionSource(self.name, "")))
        self.raw[waiting.number] = {"update_id": waiting.number, **update}
        self._waiting.append(waiting)
        self.changed.set()
        return waiting.accepted

    def refuses(self) -> None:
        """Make the token invalid from now on."""
        self.lets_in = False
        self._poll.cancel(reason="the token is revoked")

    # --- for the methods and the webhook ---

    @property
    def waiting(self) -> Sequence[WaitingEvent]:
        """Events that are not confirmed."""
        return self._waiting

    def update(self, waiting: WaitingEvent) -> object:
        """Return the update of an event, the same each time."""
        if waiting.number not in self.raw:
            self.raw[waiting.number] = update_of(waiting.number, waiting.event, int(self.now()))
        return self.raw[waiting.number]

    def accept(self, waiting: WaitingEvent) -> None:
        """Note that an update is confirmed: it is not delivered again."""
        super().accept(waiting)
        self.raw.pop(waiting.number, None)

    def not_accepted(self) -> None:
        """Note that the webhook did not accept an update."""
        self.brought_in_vain += 1
        self.changed.set()

    def message(self, chat_id: str, message_id: str) -> dict[str, Any]:
        """Return a message of the bot in the form of the API."""
        chat = self.chat(chat_id)
        shown = chat.messages[chat.position(message_id)]
        bot = {"id": self.bot_id, "is_bot": True, "first_name": "Hermes", "username": self.username}
        entities, is_rich = self.entities.get(message_id, ()), message_id in self.rich
        return sent_message(shown, chat_id, bot, entities, int(self.now()), is_rich=is_rich)

    def now(self) -> float:
        """Return the time of day."""
        return time.time()

    def new_key(self) -> str:
        """Return a new key for a message."""
        return f"sent-{next(self._keys)}"

    def set_webhook(self, url: str, secret: str) -> None:
        """Set the address of the webhook; an empty one removes it."""
        self.webhook, self.webhook_secret = url, secret
        self.changed.set()

    def new_poll(self) -> trio.CancelScope:
        """Return the scope of a new poll. It ends the previous poll: only one may run at a time."""
        self._poll.cancel(reason="another poll")
        self._poll = trio.CancelScope()
        return self._poll
