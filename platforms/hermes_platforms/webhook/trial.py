"""A trial of webhooks on this machine: `hermes-trio setup webhook --simulate`."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from hermes_trio.platform import Trial
from hermes_trio.testing import trial_of

from .testing import open_caller


@asynccontextmanager
async def open_trial() -> AsyncIterator[Trial]:
    """Run a program that calls the webhook with what the user writes, and shows the answers."""
    async with open_caller() as caller:
        yield trial_of(caller.adapter(), caller)
