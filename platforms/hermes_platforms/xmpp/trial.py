"""A trial of XMPP without an account: `hermes-trio setup xmpp --simulate`."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from hermes_trio.platform import Trial
from hermes_trio.testing import trial_of

from .adapter import XmppAdapter
from .testing import open_xmpp_server


@asynccontextmanager
async def open_trial() -> AsyncIterator[Trial]:
    """Run an XMPP server on this machine while inside."""
    async with open_xmpp_server() as server:
        yield trial_of(XmppAdapter(server.settings), server)
