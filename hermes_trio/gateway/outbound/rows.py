"""Rows of the outbox as values: the address of a chat, and the body of an owed message.

Values only.
"""

from __future__ import annotations

from hashlib import sha256
from typing import NamedTuple

import msgspec

from ...base.messages import Attachment, SessionSource
from ...platform.contract import Button, Preformatted
from ...state.tables.outbox import Owed


class Chat(NamedTuple):
    """Address of a chat. A lane sends there."""

    platform: str
    account: str
    chat_id: str

    @classmethod
    def of(cls, source: SessionSource) -> Chat:
        """Return the chat in which an answer to this source is shown."""
        return cls(source.platform, source.account, source.chat_id)


Place = tuple[Chat, str | None]
"""A chat, and the topic in it."""


def place_of(source: SessionSource) -> Place:
    """Return the chat and the topic of a source."""
    return Chat.of(source), source.thread_id


class Part(msgspec.Struct, frozen=True):
    """One message as it is sent: its text, and the preformatted ranges in it."""

    text: str
    preformatted: Preformatted = ()


class Body(msgspec.Struct, frozen=True, omit_defaults=True):
    """Body of an outbox row, stored as JSON and read by `delivery` alone."""

    text: str
    closes: str | None = None
    """Delivery key of the streamed message that this text replaces, if that message was sent."""
    only_closes: bool = False
    """True if the row has no text of its own to add: it only closes the streamed message."""
    files: tuple[Attachment, ...] = ()
    """Files to send; the text is the caption of the first."""
    buttons: tuple[Button, ...] = ()
    """Buttons below the message, until a later row closes it."""
    preformatted: Preformatted = ()
    """Ranges of the text that are shown exactly."""
    before: tuple[Part, ...] = ()
    """Messages to send before this one, as one delivery: this one is sent only after all of them."""

    @property
    def part(self) -> Part:
        """The text with its preformatted ranges."""
        return Part(self.text, self.preformatted)


def owed(chat: Chat, key: str, body: Body, *, thread_id: str | None = None, **of: object) -> Owed:
    """Return an outbox row for this chat."""
    text = msgspec.json.encode(body).decode()
    return Owed(key, *chat, body=text, thread_id=thread_id, **of)  # type: ignore[arg-type]


def draft_number(run_id: str) -> int:
    """Return the number of the draft in which the answer of a run grows: the same in every life."""
    return int.from_bytes(sha256(run_id.encode()).digest()[:4]) % (2**31 - 1) + 1


def stream_key(run_id: str) -> str:
    """Return the delivery key of the streamed message of a run."""
    return f"{run_id}:stream"
