"""Adapter for a mailbox."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from hermes_trio.platform import LinkLost, sole_use

from .email_link import TRAITS, EmailLink, Threads
from .mailbox import open_mailbox
from .settings import EmailSettings
from .smtp import Submissions


class EmailAdapter:
    """An adapter for one mailbox."""

    def __init__(self, settings: EmailSettings, *, name: str = "email", account: str = "main") -> None:
        self.name, self.account, self.traits = name, account, TRAITS
        self._settings = settings
        self._threads: Threads = {}

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[EmailLink]:
        """As `Adapter.connect`. A mailbox has one reader: two would both answer."""
        settings = self._settings
        with sole_use(self.name, f"{settings.imap_host}:{settings.imap_port}/{settings.address}") as alone:
            if not alone:
                raise LinkLost("Another process on this machine reads this mailbox. Stop it, or use another.")
            async with open_mailbox(settings, self.name) as mailbox:
                submissions = Submissions(settings)
                try:
                    yield EmailLink(settings, mailbox, submissions, self._threads, self.name, self.account)
                finally:
                    submissions.close()
