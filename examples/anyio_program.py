"""A program on anyio: give it a directory and a backend, `trio` or `asyncio`."""

import sys

import anyio

import hermes_trio


async def count(turn: hermes_trio.Turn) -> None:
    """Count slowly."""
    for number in range(1, 1000):
        await turn.say(f"{number} ")
        await anyio.sleep(0.1)


async def main(home: str) -> None:
    """Follow two runs at the same time."""
    async with hermes_trio.open_gateway(home, agent=count) as gateway, anyio.create_task_group() as tasks:
        for name in ("one", "two"):
            tasks.start_soon(follow, gateway, name)


async def follow(gateway: hermes_trio.Gateway, name: str) -> None:
    """Print the pieces of an answer."""
    async with gateway.run("count", session=name) as run:
        async for event in run:
            if isinstance(event, hermes_trio.MessageDelta):
                print(name, event.delta, flush=True)


anyio.run(main, sys.argv[1], backend=sys.argv[2])
