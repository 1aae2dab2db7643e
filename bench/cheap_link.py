"""The base of the links of the benchmarks: each call is a checkpoint and costs no other time."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Self

import trio
import trio.lowlevel


class CheapLink:
    """An adapter that is its own link. Subclasses receive and send."""

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[Self]:
        yield self

    async def edit(self, chat_id: str, message_id: str, text: str, preformatted: object = ()) -> None:
        await trio.lowlevel.checkpoint()

    async def delete(self, chat_id: str, message_id: str) -> None:
        await trio.lowlevel.checkpoint()

    async def typing(self, chat_id: str, thread_id: str | None) -> None:
        await trio.lowlevel.checkpoint()

    async def draft(self, draft: object) -> None:
        raise NotImplementedError("the traits deny it")

    async def react(self, chat_id: str, message_id: str) -> None:
        raise NotImplementedError("the traits deny it")

    async def find(self, chat_id: str, key: str, thread_id: str | None = None) -> str | None:
        await trio.lowlevel.checkpoint()
        return None

    async def fetch(self, file_id: str, most: int) -> bytes:
        raise NotImplementedError("the traits deny it")
