"""A trial of Telegram without a bot: `hermes-trio setup telegram --simulate`."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from hermes_trio.platform import Trial
from hermes_trio.testing import trial_of

from .adapter import TelegramAdapter
from .testing import open_bot_api


@asynccontextmanager
async def open_trial() -> AsyncIterator[Trial]:
    """Run a Bot API server on this machine while inside."""
    async with open_bot_api() as api:
        yield trial_of(TelegramAdapter(api.token, base_url=api.base_url), api)
