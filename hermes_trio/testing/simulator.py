"""Parts of simulators: platforms for tests that listen on a port."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

import trio


@dataclass(slots=True)
class ConnectionCutter:
    """Cuts a connection after this many more bytes."""

    sent: float = math.inf
    received: float = math.inf

    async def receive_some(self, stream: trio.SocketStream, most: int) -> bytes | bytearray:
        if self.received <= 0:
            self._cut()
        data = await stream.receive_some(int(min(most, self.received)))
        self.received -= len(data)
        return data

    async def send_all(self, stream: trio.SocketStream, data: bytes) -> None:
        part = data[: int(min(len(data), self.sent))]
        self.sent -= len(part)
        await stream.send_all(part)
        if len(part) < len(data):
            self._cut()

    def _cut(self) -> None:
        self.sent = self.received = math.inf
        raise trio.BrokenResourceError("cut by the test")


@asynccontextmanager
async def in_background(task: Callable[[], Awaitable[None]]) -> AsyncIterator[None]:
    """Run `task` while inside. An exception of the caller's block leaves it as it was raised, and not in a
    group: the nursery is no business of the caller."""
    only: BaseException | None = None
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(task)
            try:
                yield
            finally:
                nursery.cancel_scope.cancel(reason="the block ended")
    except BaseExceptionGroup as group:
        if len(group.exceptions) > 1:
            raise
        only = group.exceptions[0]
    if only is not None:  # outside of the handler, where the group would become its context
        raise only
