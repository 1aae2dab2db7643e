"""What a lane is given to send: owed rows, which the outbox holds, and messages that grow."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from ...base.messages import Attachment, SessionSource
from ...platform.contract import Button, Preformatted
from ...state.tables.outbox import Owed


class Chat(NamedTuple):
    """Where something is sent."""

    platform: str
    account: str
    chat_id: str

    @classmethod
    def of(cls, source: SessionSource) -> Chat:
        """Where an answer to this goes."""
        return cls(source.platform, source.account, source.chat_id)


Place = tuple[Chat, str | None]


def place_of(source: SessionSource) -> Place:
    """The chat and the topic in it that a source is."""
    return Chat.of(source), source.thread_id


class Part(msgspec.Struct, frozen=True):
    """A message as it is sent: its text, and what in it is preformatted."""

    text: str
    preformatted: Preformatted = ()


class Body(msgspec.Struct, frozen=True, omit_defaults=True):
    """What an outbox row says. JSON in the row; read by the lane alone."""

    text: str
    closes: str | None = None
    """The delivery key of the streamed message that this text replaces, if that was ever sent."""
    only_closes: bool = False
    """There is nothing to say but to close that message."""
    files: tuple[Attachment, ...] = ()
    """What goes along; the text stands below the first."""
    buttons: tuple[Button, ...] = ()
    """What can be pressed below it, as long as nothing closes it."""
    preformatted: Preformatted = ()
    """What in the text is shown exactly as it is."""
    before: tuple[Part, ...] = ()
    """Messages that are one thing with this one, and are sent before it: it goes only if they have gone."""

    @property
    def part(self) -> Part:
        """The text, and what in it is preformatted."""
        return Part(self.text, self.preformatted)


def owed(chat: Chat, key: str, body: Body, *, thread_id: str | None = None, **of: object) -> Owed:
    """An outbox row for this chat."""
    text = msgspec.json.encode(body).decode()
    return Owed(key, *chat, body=text, thread_id=thread_id, **of)  # type: ignore[arg-type]


def stream_key(run_id: str) -> str:
    """The delivery key of the message that grows while this run is answered."""
    return f"{run_id}:stream"


@dataclass(slots=True)
class Stream:
    """A message that grows. The turn sets its text; the lane shows it."""

    key: str
    thread_id: str | None
    reply_to: str | None = None
    cursor: str = ""
    """Stands behind the text while more is to come. Not in the first send: until its receipt is stored,
    nobody may be able to take it away again."""
    text: str = ""
    shown: str = ""
    message_id: str | None = None
    next_at: float = 0.0
    interval: float = 0.8
    closed: bool = False

    @property
    def up_to_date(self) -> bool:
        """Whether there is nothing to edit."""
        return self.closed or self.shown == self.text + self.cursor
