"""The platform called `api`: sessions that live nowhere but here.

People speak to it by requests, and see what is said on the page and in the events. So its link brings
nothing and sends nowhere; it is there so that a session of the API is taken up again, answered and let in
like any other. Who speaks here has shown the key at the door.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import trio

from ...base.messages import MessageEvent, SessionSource
from ...platform.contract import Link, Outgoing, Preformatted, Traits

NAME = "api"


class ApiPlatform:
    """The adapter."""

    name = NAME
    account = "main"
    traits = Traits(limit=2**31, own_door=True, takes_keys=True, dialect="markdown")

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[Link]:
        yield _Nowhere()


def source_of(session_id: str) -> SessionSource:
    """Where a session of the API lives."""
    return SessionSource(platform=NAME, chat_id=session_id)


class _Nowhere:
    """What is sent here was seen before: the transcript has it, and the events."""

    async def receive(self) -> AsyncIterator[MessageEvent]:
        await trio.Event().wait()
        yield MessageEvent(source_of(""))  # never: this makes it an iterator

    async def send(self, message: Outgoing) -> str | None:
        await trio.lowlevel.checkpoint()
        return None

    async def edit(self, chat_id: str, message_id: str, text: str, preformatted: Preformatted = ()) -> None:
        raise NotImplementedError("the traits deny it")

    async def delete(self, chat_id: str, message_id: str) -> None:
        raise NotImplementedError("the traits deny it")

    async def typing(self, chat_id: str, thread_id: str | None) -> None:
        raise NotImplementedError("the traits deny it")

    async def find(self, chat_id: str, key: str) -> str | None:
        raise NotImplementedError("the traits deny it")

    async def fetch(self, file_id: str, most: int) -> bytes:
        raise NotImplementedError("the traits deny it")
