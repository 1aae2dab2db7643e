"""A trial of Discord without a bot: `hermes-trio setup discord --simulate`."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from hermes_trio.platform import Trial
from hermes_trio.testing import trial_of

from .adapter import DiscordAdapter
from .testing import open_discord


@asynccontextmanager
async def open_trial() -> AsyncIterator[Trial]:
    """Run a Discord server on this machine while inside."""
    async with open_discord() as server:
        yield trial_of(DiscordAdapter(server.token, base_url=server.base_url), server)
