"""A trial of Matrix without an account: `hermes-trio setup matrix --simulate`."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from hermes_trio.platform import Trial
from hermes_trio.testing import trial_of

from .adapter import MatrixAdapter
from .testing import open_home_server


@asynccontextmanager
async def open_trial() -> AsyncIterator[Trial]:
    """Run a home server on this machine while inside."""
    async with open_home_server() as server:
        yield trial_of(MatrixAdapter(server.token, base_url=server.base_url), server)
