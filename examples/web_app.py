"""A web application under uvicorn: the gateway lives as long as the application. Give it a directory.

`timeout_graceful_shutdown` is needed: uvicorn closes the gateway only after the last request has ended.
"""

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TypedDict

import anyio
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import StreamingResponse
from starlette.routing import Route

import hermes_trio


class State(TypedDict):
    """Values that all requests of the application share."""

    gateway: hermes_trio.Gateway


async def count(turn: hermes_trio.Turn) -> None:
    """Count slowly."""
    for number in range(1, 1000):
        await turn.say(f"{number} ")
        await anyio.sleep(0.1)


@asynccontextmanager
async def lifespan(_: Starlette) -> AsyncIterator[State]:
    """Open the gateway for the life of the application."""
    async with hermes_trio.open_gateway(sys.argv[1], agent=count) as gateway:
        yield {"gateway": gateway}


async def ask(request: Request) -> StreamingResponse:
    """Answer a question piece by piece. The run ends when the client hangs up."""
    gateway: hermes_trio.Gateway = request.state.gateway
    text = (await request.body()).decode()

    async def pieces() -> AsyncIterator[str]:
        async with gateway.run(text, session=request.path_params["session"]) as run:
            async for event in run:
                if isinstance(event, hermes_trio.MessageDelta):
                    yield event.delta + "\n"

    return StreamingResponse(pieces())


app = Starlette(routes=[Route("/{session}", ask, methods=["POST"])], lifespan=lifespan)
uvicorn.run(app, port=int(sys.argv[2]), timeout_graceful_shutdown=1, log_level="warning")
