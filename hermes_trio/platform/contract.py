"""What a platform is to the gateway: the whole contract between the core and an adapter.

An adapter is an async context manager that yields a `Link`: entering connects, being inside is being
connected, leaving disconnects. The core asks for no platform by name; what differs between them is
said by `Traits`.

*Accepted means stored*: `receive` is an async iterator, and asking it for the next event says that the
one before is committed. Only then may the link tell its platform "received". An iterator that ends, or
raises `LinkLost`, is a lost connection: the link's task connects again, with patience.

Every call may be cancelled at any await. A send that was cancelled, or timed out behind the point where
the platform may have taken it, has an unknown outcome: the core then asks `find`, repeats with the same
key, or sends once more and says so. What a platform refuses is one of the errors below.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Literal, Protocol

from ..base.errors import GatewayError
from ..base.messages import Attachment, MessageEvent

Counting = Literal["characters", "utf-16", "bytes"]
Dialect = Literal["plain", "markdown"]
Preformatted = tuple[tuple[int, int], ...]
"""Stretches of a text, each from its first character to behind its last, in order. They are shown exactly as
they are, and nothing in them is markup: whole lines as a block, others within their line."""


@dataclass(frozen=True, slots=True)
class Button:
    """Something below a message that can be pressed."""

    label: str
    value: str
    """What the event of the press says: at most 64 bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Traits:
    """What a platform can do. The core decides by these and by nothing else."""

    limit: int = 4096
    """How long one message may be."""
    counting: Counting = "characters"
    """What the limit counts."""
    edits: bool = False
    deletes: bool = False
    typing: bool = False
    threads: bool = False
    buttons: bool = False
    """A message may have some. A press is an event of its own, of kind `callback`; an edit removes them."""
    placeholder: str = ""
    """What a message says that says nothing yet, on a platform which can edit, and can neither find what was
    sent nor take a key: there the first message of an answer is this one, and its text comes by edits, which
    may be repeated. Empty if that is not to be."""
    fetches: bool = False
    """What people send along can be had by its `file_id`."""
    sends_files: bool = False
    takes_keys: bool = False
    """A send with a key that was sent before is not shown a second time."""
    finds: bool = False
    """It can be asked whether a send with a key has arrived."""
    dialect: Dialect = "plain"
    """How people see a text: as it is written, or its Markdown as what it means. Models are told."""
    preformatted: bool = False
    """It shows what is `preformatted` so. Without it, a platform whose dialect is Markdown is sent no
    approvals, for a command might look like another one there."""
    own_door: bool = False
    """Who speaks here was let in by the platform's own door, which asks for a key: no list names them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outgoing:
    """One message as a link is to send it. It fits the limit. Its text is Markdown, as models write it: what
    the platform has for that is made of it by the link. What is `preformatted` in it is no Markdown."""

    chat_id: str
    text: str
    key: str
    """The same for every attempt at this message, and for no other."""
    preformatted: Preformatted = ()
    thread_id: str | None = None
    reply_to: str | None = None
    attachments: tuple[Attachment, ...] = ()
    buttons: tuple[Button, ...] = ()
    silent: bool = False
    """A notice: it makes no sound, and is no part of the conversation."""
    grows: bool = False
    """The beginning of a message that is going to be edited until it is whole."""


class Link(Protocol):
    """A live connection to a platform."""

    def receive(self) -> AsyncIterator[MessageEvent]:
        """What people say. Asking for the next one says that the one before is stored. What cannot be read is
        handed over too, as an event of kind `unreadable`: it is kept, and never comes back."""

    async def send(self, message: Outgoing) -> str | None:
        """Send; returns the platform's id of the message, if it gives one."""

    async def edit(self, chat_id: str, message_id: str, text: str, preformatted: Preformatted = ()) -> None:
        """Let a sent message say something else. Buttons that it had are gone."""

    async def delete(self, chat_id: str, message_id: str) -> None:
        """Take a sent message back."""

    async def typing(self, chat_id: str, thread_id: str | None) -> None:
        """Show for some seconds that somebody is typing."""

    async def find(self, chat_id: str, key: str) -> str | None:
        """The id of the message that was sent with this key; None if none has arrived."""

    async def fetch(self, file_id: str, most: int) -> bytes:
        """What somebody has sent along. `Refused` if it is more than so many bytes, or not there."""


class Adapter(Protocol):
    """The code of a platform."""

    name: str
    """What it is called in the configuration and in keys."""
    account: str
    """Which of our accounts on the platform it is."""
    traits: Traits

    def connect(self) -> AbstractAsyncContextManager[Link]:
        """Connect. Raises `CredentialsRefused`, which is final, or `LinkLost`, which is not."""


class PlatformError(GatewayError):
    """Something a platform did not do."""


class CredentialsRefused(PlatformError):
    """The platform does not accept our token: trying again changes nothing."""

    exit_code = 78

    def __init__(self, platform: str, variable: str = "token") -> None:
        super().__init__(
            f"{platform} refused its {variable}. Renew platforms.{platform}.{variable} in config.yaml, "
            "then restart."
        )
        self.platform, self.variable = platform, variable


class LinkLost(PlatformError):
    """The connection broke, or could not be made. It will be tried again."""


class NotSent(PlatformError):
    """The message surely did not arrive, and may be sent again: connection refused, server busy."""


class FloodWait(NotSent):
    """Too fast: surely not sent, and not before so many seconds."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"The platform wants {seconds:g} seconds of silence.")
        self.seconds = seconds


class OutcomeUnknown(PlatformError):
    """Nobody knows whether the message arrived: never sent again blindly."""


class Refused(PlatformError):
    """The platform will not take this message, however often it is sent."""


class ChatGone(Refused):
    """The chat is gone, or has thrown us out: nothing is sent there any more until somebody is heard from
    there. Not for a thread or a message that is gone: that is `Refused`."""
