"""A bot on asyncio: people write lines to a port, each connection is a conversation, and the agent uses what
needs asyncio. Give it a directory."""

import asyncio
import sys
from collections.abc import AsyncIterator
from functools import partial

import hermes_trio


@hermes_trio.asyncio_agent
async def count(turn: hermes_trio.AsyncioTurn) -> AsyncIterator[str]:
    """Count slowly, with the sleep of asyncio in the place of an SDK."""
    for number in range(1, 1000):
        yield f"{number} "
        await asyncio.sleep(0.1)


async def talk(
    gateway: hermes_trio.Gateway, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    """Answer one person until the connection is closed."""
    session = "person-{}".format(writer.get_extra_info("peername")[1])
    while line := await reader.readline():
        async with gateway.run(line.decode().strip(), session=session) as run:
            async for event in run:
                if isinstance(event, hermes_trio.MessageDelta):
                    writer.write(event.delta.encode() + b"\n")
                    await writer.drain()


async def main(home: str) -> None:
    """Listen on a free port."""
    async with hermes_trio.open_gateway(home, agent=count) as gateway:
        server = await asyncio.start_server(partial(talk, gateway), "127.0.0.1", 0)
        async with server:
            print(server.sockets[0].getsockname()[1], flush=True)
            await server.serve_forever()


asyncio.run(main(sys.argv[1]))
