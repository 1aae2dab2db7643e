"""A trial of Slack without an app: `hermes-trio setup slack --simulate`."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from hermes_trio.platform import Trial
from hermes_trio.testing import trial_of

from .adapter import SlackAdapter
from .testing import open_slack


@asynccontextmanager
async def open_trial() -> AsyncIterator[Trial]:
    """Run a Slack server on this machine while inside."""
    async with open_slack() as server:
        yield trial_of(SlackAdapter(server.token, server.app_token, base_url=server.base_url), server)
