"""A trial of email without a mailbox: `hermes-trio setup email --simulate`."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from hermes_trio.platform import Trial
from hermes_trio.testing import trial_of

from .adapter import EmailAdapter
from .testing import open_mail_server


@asynccontextmanager
async def open_trial() -> AsyncIterator[Trial]:
    """Run a mail server on this machine while inside."""
    async with open_mail_server() as server:
        yield trial_of(EmailAdapter(server.settings), server)
