"""An agent of one's own on Trio: it has a resource for the life of the gateway, and uses a tool. Give it a
directory."""

import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import trio

import hermes_trio
from hermes_trio.tools import function_tool


async def wait(seconds: float) -> str:
    """Waits, and returns for how long."""
    await trio.sleep(seconds)
    return f"{seconds} s"


WAIT = function_tool(wait)


@asynccontextmanager
async def open_agent() -> AsyncIterator[hermes_trio.Agent]:
    """Open what the agent needs, here a file, and yield the function that answers a turn."""
    async with await trio.open_file(f"{sys.argv[1]}/answers", "a") as notes:

        async def answer(turn: hermes_trio.Turn) -> str:
            await notes.write(f"{turn.prompt}\n")
            await turn.say("I wait. ")
            result = await turn.call_tool(WAIT, json.dumps({"seconds": float(turn.prompt)}))
            return f"I have waited {result.content}."

        yield answer


async def main(home: str) -> None:
    """Print what happens in two runs; the second one takes long."""
    async with hermes_trio.open_gateway(home, agent=open_agent()) as gateway:
        print(await gateway.say("first", "0.01"), flush=True)
        async with gateway.run("100", session="first") as run:
            async for event in run:
                if isinstance(event, hermes_trio.ToolStarted):
                    print(event.tool, event.preview, flush=True)


trio.run(main, sys.argv[1])
