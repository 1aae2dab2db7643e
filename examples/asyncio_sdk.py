"""A service on Trio with an agent that wraps an SDK that needs asyncio. It needs `hermes-trio[asyncio]`. Give
it a directory."""

import asyncio
import sys
from collections.abc import AsyncIterator
from types import TracebackType
from typing import Self

import trio

import hermes_trio


class Client:
    """Stands for an SDK: it has a task of its own, which writes to a queue of asyncio."""

    async def __aenter__(self) -> Self:
        self._pieces: asyncio.Queue[str] = asyncio.Queue(maxsize=1)
        self._task = asyncio.get_running_loop().create_task(self._count())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._task.cancel()
        await asyncio.wait([self._task])
        print("closed", flush=True)

    async def _count(self) -> None:
        for number in range(1, 1000):
            await self._pieces.put(f"{number} ")
            await asyncio.sleep(0.1)

    async def next_piece(self) -> str:
        """Wait for the next piece of the answer."""
        return await asyncio.wait_for(self._pieces.get(), timeout=10)


@hermes_trio.asyncio_agent
async def answer(turn: hermes_trio.AsyncioTurn) -> AsyncIterator[str]:
    """Yield what the SDK yields. The client is closed with the turn, however that ends."""
    async with Client() as client:
        while True:
            yield await client.next_piece()


async def main(home: str) -> None:
    """Print the pieces of an answer."""
    async with hermes_trio.open_gateway(home, agent=answer) as gateway, gateway.run("count") as run:
        async for event in run:
            if isinstance(event, hermes_trio.MessageDelta):
                print(event.delta, flush=True)


trio.run(main, sys.argv[1])
