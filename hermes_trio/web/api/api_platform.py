"""The adapter of the platform `api`, whose sessions live in no chat.

People write to these sessions by requests, and read them on the page and in the events. So the link receives
and sends nothing. It exists so that a session of the API is resumed, answered and admitted like any other.
The people have shown the key.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import trio

from ...base.messages import MessageEvent
from ...gateway.operations.api_sessions import API_PLATFORM, source_of
from ...platform.base_link import BaseLink
from ...platform.contract import FOR_EVER, Link, Outgoing, Traits


class ApiPlatform:
    """The adapter."""

    name = API_PLATFORM
    account = "main"
    traits = Traits(
        limit=2**31, own_door=True, shows_transcript=True, takes_keys_for=FOR_EVER, dialect="markdown"
    )

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[Link]:
        yield _SilentLink(self.traits)


class _SilentLink(BaseLink):
    """A link that drops what it sends, because the transcript and the events already have it."""

    async def receive(self) -> AsyncIterator[MessageEvent]:
        await trio.Event().wait()
        yield MessageEvent(source_of(""))  # unreachable, but it makes this function an iterator

    async def send(self, message: Outgoing) -> str | None:
        await trio.lowlevel.checkpoint()
        return None
