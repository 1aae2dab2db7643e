"""Contract between the core and an adapter, the code of a platform.

An adapter is an async context manager that yields a `Link`: entering it connects, leaving it disconnects. The
core names no platform; `Traits` describe the differences between platforms.

*Accepted means stored*: `receive` is an async iterator. A request for the next event means that the previous
one is committed; only then may the link acknowledge it to its platform. An iterator that ends, or raises
`LinkLost`, is a lost connection; the gateway connects again, with growing pauses.

Every call may be cancelled at any await. A send that is cancelled, or times out after the platform may have
taken it, has an unknown outcome: the core calls `find`, repeats the send with the same key, or sends once
more and marks the message as a possible repetition. A call that the platform refuses raises one of the errors
below.
"""

from __future__ import annotations

import math
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Literal, Protocol

import trio
import trio.lowlevel

from ..base.errors import GatewayError
from ..base.messages import Attachment, MessageEvent

Counting = Literal["characters", "utf-16", "bytes"]
Dialect = Literal["plain", "markdown"]
FOR_EVER = math.inf
"""Value of `Traits.takes_keys_for` for a platform that never forgets a key."""
STOPPED_DRAFT = "stopped-draft:"
"""Beginning of the text of an event that says that a person has stopped a draft; its number follows."""
Preformatted = tuple[tuple[int, int], ...]
"""Parts of a text that are shown exactly as they are, without markup: pairs of the index of the first
character and the index after the last one, in order. Whole lines are shown as a block, other parts within
their line."""


@dataclass(frozen=True, slots=True)
class Button:
    """A button below a message."""

    label: str
    value: str
    """Text of the event of a press: at most 64 bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Traits:
    """Abilities of a platform. The core decides by these and by nothing else."""

    limit: int = 4096
    """Greatest length of one message."""
    counting: Counting = "characters"
    """Unit of the limit."""
    edits: bool = False
    deletes: bool = False
    typing: bool = False
    threads: bool = False
    buttons: bool = False
    """Messages may have buttons. A press is an event of its own, of kind `callback`; an edit removes them."""
    placeholder: str = ""
    """Text of the first message of an answer, before it has any words; empty to send no such message. It is
    for platforms that can edit, and can neither find what was sent nor take a key: there the words come by
    edits, which may be repeated."""
    drafts: bool = False
    """A text that is being written can be shown as a `Draft` in direct chats."""
    reacts: bool = False
    """A message of a person can be marked as taken in."""
    fetches: bool = False
    """Attachments of people can be fetched by their `file_id`."""
    sends_files: bool = False
    takes_keys_for: float = 0.0
    """Seconds after a first send in which another send with the same key shows nothing: 0 for never.
    Less than the platform promises: a repeat needs time to arrive."""
    finds: bool = False
    """The platform can tell whether a send with a key has arrived."""
    redelivers: bool = True
    """An event that was not acknowledged comes again. Without it, what people write is lost while there is no
    connection, or if the process is killed before the event is stored."""
    dialect: Dialect = "plain"
    """Form in which people see a text: as it is written, or with its Markdown rendered. Models are told."""
    preformatted: bool = False
    """`preformatted` parts are shown as such. A platform without it whose dialect is Markdown is sent no
    approvals, because there one command could be shown as another."""
    remembers: bool = False
    """`connect` takes a `Memory`: the platform does not keep for the adapter where it has read to. Such an
    adapter is a `RememberingAdapter`."""
    own_door: bool = False
    """The platform checks access itself, with a key. Lists of allowed people do not apply."""
    shows_transcript: bool = False
    """People read the transcript itself, so neither answers nor notices are sent to them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outgoing:
    """One message for a link to send. It fits the limit. `text` is Markdown, except in its `preformatted`
    parts; the link converts it to the platform's markup."""

    chat_id: str
    text: str
    key: str
    """Equal for all attempts at this message, and different from that of every other message."""
    preformatted: Preformatted = ()
    thread_id: str | None = None
    reply_to: str | None = None
    attachments: tuple[Attachment, ...] = ()
    buttons: tuple[Button, ...] = ()
    silent: bool = False
    """A notice: it makes no sound, and is no part of the conversation."""
    grows: bool = False
    """First part of a message that is edited until it is complete."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """The text of an answer that is being written. It disappears after some seconds unless it is shown again,
    and when a message is sent to the chat. A person can stop it: then an event of kind `callback` comes, with
    the text `STOPPED_DRAFT` and the number."""

    chat_id: str
    number: int
    """From 1 to 2**31 - 1; equal for all texts of one answer."""
    text: str = ""
    """Markdown that fits the limit; empty before the first words."""
    thread_id: str | None = None


class Link(Protocol):
    """A live connection to a platform. `BaseLink` is a base class that refuses calls which the traits
    deny."""

    def receive(self) -> AsyncIterator[MessageEvent]:
        """Return an iterator of the messages of people. A request for the next one means that the previous
        one is stored. A message that cannot be read is an event of kind `unreadable`: it is stored too, and
        does not come again."""

    async def send(self, message: Outgoing) -> str | None:
        """Send a message. Return the platform's id of it, if the platform gives one."""

    async def edit(self, chat_id: str, message_id: str, text: str, preformatted: Preformatted = ()) -> None:
        """Replace the text of a sent message, and remove its buttons."""

    async def delete(self, chat_id: str, message_id: str) -> None:
        """Delete a sent message."""

    async def typing(self, chat_id: str, thread_id: str | None) -> None:
        """Show for some seconds that somebody is typing."""

    async def draft(self, draft: Draft) -> None:
        """Show a draft in a direct chat, in place of its last text. Raises `Refused` where that is not
        possible."""

    async def react(self, chat_id: str, message_id: str) -> None:
        """Mark a message of a person as taken in."""

    async def find(self, chat_id: str, key: str, thread_id: str | None = None) -> str | None:
        """Return the id of the message that was sent with this key, to this thread if one is named; None if
        none has arrived."""

    async def fetch(self, file_id: str, most: int) -> bytes:
        """Return the content of an attachment. Raises `Refused` if it is longer than `most` bytes or
        missing."""


class Adapter(Protocol):
    """The code of a platform."""

    name: str
    """Name in the configuration and in session keys."""
    account: str
    """Name of our account on the platform."""
    traits: Traits

    def connect(self) -> AbstractAsyncContextManager[Link]:
        """Connect. Raises `CredentialsRefused`, which is final, or `LinkLost`, which is not."""


class Memory(Protocol):
    """A text that outlives the process: where the adapter goes on reading. An event that comes again is no
    second message, so it may be kept a moment after the events that it covers, and never before them."""

    async def recall(self) -> str | None:
        """Return the text that was kept last; None if there is none."""

    async def keep(self, text: str) -> None:
        """Keep a text in place of the last one. It is durable after the return."""


class HeldMemory:
    """A memory that ends with the process: for tests, and for programs that have no home."""

    def __init__(self) -> None:
        self.text: str | None = None

    async def recall(self) -> str | None:
        await trio.lowlevel.checkpoint()
        return self.text

    async def keep(self, text: str) -> None:
        await trio.lowlevel.checkpoint()
        self.text = text


class RememberingAdapter(Adapter, Protocol):
    """An adapter with the trait `remembers`."""

    def connect(self, memory: Memory | None = None) -> AbstractAsyncContextManager[Link]:
        """As `Adapter.connect`. Without a memory the adapter uses a `HeldMemory` of its own."""


class PlatformError(GatewayError):
    """A platform did not do what it was asked for."""


class CredentialsRefused(PlatformError):
    """The platform does not accept our token. A retry changes nothing."""

    exit_code = 78

    def __init__(self, platform: str, variable: str = "token") -> None:
        super().__init__(
            f"{platform} refused its {variable}. Renew platforms.{platform}.{variable} in config.yaml, "
            "then restart."
        )
        self.platform, self.variable = platform, variable


class LinkLost(PlatformError):
    """The connection broke, or could not be made. The gateway will try again."""


class NotSent(PlatformError):
    """The message certainly did not arrive and may be sent again: connection refused, server busy."""


class FloodWait(NotSent):
    """The platform limits our rate: the message was not sent, and may be sent after `seconds`."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"The platform wants {seconds:g} seconds of silence.")
        self.seconds = seconds


class OutcomeUnknown(PlatformError):
    """The message may have arrived or not. It is never sent again without a check."""


class Refused(PlatformError):
    """The platform does not accept this message, however often it is sent."""


class ChatGone(Refused):
    """The chat no longer exists, or has removed us: nothing is sent there until a message comes from it. A
    thread or a message that no longer exists is `Refused`."""
