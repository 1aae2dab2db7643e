"""A service on Trio: it follows a run, and Ctrl-C ends the run and the gateway. Give it a directory."""

import sys

import trio

import hermes_trio


async def count(turn: hermes_trio.Turn) -> None:
    """Count slowly."""
    for number in range(1, 1000):
        await turn.say(f"{number} ")
        await trio.sleep(0.1)


async def main(home: str) -> None:
    """Print the pieces of an answer."""
    async with hermes_trio.open_gateway(home, agent=count) as gateway, gateway.run("count") as run:
        async for event in run:
            if isinstance(event, hermes_trio.MessageDelta):
                print(event.delta, flush=True)


trio.run(main, sys.argv[1])
