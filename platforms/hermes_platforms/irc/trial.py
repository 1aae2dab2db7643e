"""A trial of IRC without a server: `hermes-trio setup irc --simulate`."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from hermes_trio.platform import Trial
from hermes_trio.testing import trial_of

from .adapter import IrcAdapter
from .testing import open_irc_server


@asynccontextmanager
async def open_trial() -> AsyncIterator[Trial]:
    """Run an IRC server on this machine while inside."""
    async with open_irc_server() as server:
        yield trial_of(IrcAdapter(server.settings), server)
