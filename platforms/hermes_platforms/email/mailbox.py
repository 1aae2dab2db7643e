"""The mailbox of the bot: unread mail, one after another, and IDLE between them.

A mail is marked as read once its event is stored. So the mailbox itself remembers what is not done, also for
the next process: what is unread comes again.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import trio

from hermes_trio.platform import CredentialsRefused, LinkLost, PlatformError

from ..beside import open_beside
from .imap import LARGEST, ImapConnection, ImapLost, ImapRefused, LoginRefused, open_imap
from .parsing import shortened
from .settings import EmailSettings


@dataclass(frozen=True, slots=True)
class Mail:
    """A mail as it came."""

    uid: int
    number: str
    """The validity of the mailbox's numbers, and the number."""
    data: bytes


class Mailbox:
    """The unread mail of one connection."""

    def __init__(self, settings: EmailSettings, platform: str) -> None:
        self._settings, self._platform = settings, platform
        self._waiting, self._come = trio.open_memory_channel[Mail](0)
        self._stored: list[int] = []
        self._idling = trio.CancelScope()
        self._loss: PlatformError = LinkLost("The link is closed.")

    async def next(self) -> Mail:
        """Wait for the next unread mail. Raises `LinkLost`."""
        try:
            return await self._come.receive()
        except (trio.EndOfChannel, trio.ClosedResourceError):
            raise self._loss from None

    def stored(self, mail: Mail) -> None:
        """Have a mail marked as read."""
        self._stored.append(mail.uid)
        self._idling.cancel(reason="a mail is stored")

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Hand out unread mail. The task has started once the mailbox is open; until then it raises what is
        wrong, later `next` does."""
        started = False
        with self._waiting:
            try:
                async with open_imap(self._settings) as imap:
                    validity = await imap.select()
                    task_status.started()
                    started = True
                    await self._hand_out(imap, validity)
            except (ImapLost, ImapRefused, OSError) as error:
                self._loss = loss_of(error, self._platform)
                if not started:
                    raise self._loss from error

    async def _hand_out(self, imap: ImapConnection, validity: str) -> None:
        handed_out: set[int] = set()
        while True:
            self._idling, imap.has_news = trio.CancelScope(), False
            for uid in await imap.search("UNSEEN"):
                if uid in handed_out:
                    continue
                await self._mark(imap)
                handed_out.add(uid)
                size = await imap.size(uid)
                if size is None:
                    continue
                data = await imap.fetch(uid, "" if size <= LARGEST else "HEADER")
                if data is not None:
                    data = data if size <= LARGEST else shortened(data, size)
                    await self._waiting.send(Mail(uid, f"{validity}/{uid}", data))
            await self._mark(imap)
            if not (imap.has_news or self._idling.cancel_called):
                await imap.idle(self._idling)

    async def _mark(self, imap: ImapConnection) -> None:
        if stored := self._stored:
            self._stored = []
            await imap.mark_read(stored)


def loss_of(error: Exception, platform: str) -> PlatformError:
    """Return the error of the contract for a connection that failed."""
    if isinstance(error, LoginRefused):
        return CredentialsRefused(platform, "password")
    return LinkLost(f"The mailbox cannot be reached: {error}.")


@asynccontextmanager
async def open_mailbox(settings: EmailSettings, platform: str) -> AsyncIterator[Mailbox]:
    """Read the mailbox while inside. Raises `CredentialsRefused` or `LinkLost`."""
    mailbox = Mailbox(settings, platform)
    async with open_beside("the link is closed") as nursery:
        await nursery.start(mailbox.run)
        yield mailbox
