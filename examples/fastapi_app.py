"""A FastAPI application with a gateway: its page below `/hermes`, a tool of the application, and a route that
asks.

Start it with any ASGI server, for example `uvicorn fastapi_app:app`. The directory of the gateway is in the
variable BOT_HOME, with a `config.yaml` that names the model.
"""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated

import fastapi
from fastapi.responses import PlainTextResponse

import hermes_trio

HOME = Path(os.environ["BOT_HOME"])
STOCK = {"tea": 12, "coffee": 0}
hermes = hermes_trio.MountedWeb()


async def stock(article: str) -> int:
    """Returns how many pieces of an article are in stock."""
    return STOCK[article]


@asynccontextmanager
async def lifespan(app: fastapi.FastAPI) -> AsyncIterator[None]:
    """Open the gateway for the life of the application."""
    config = hermes_trio.load_config(HOME, os.environ).config
    async with hermes_trio.open_gateway(HOME, config, tools=[stock], web=hermes) as gateway:
        app.state.gateway = gateway
        with hermes_trio.stopped_by_signals(gateway):  # a server waits for the streams of the page
            yield


app = fastapi.FastAPI(lifespan=lifespan)
app.mount("/hermes", hermes)


@app.post("/ask/{session}", response_class=PlainTextResponse)
async def ask(session: str, request: fastapi.Request, text: Annotated[str, fastapi.Body(embed=True)]) -> str:
    """Answer a question."""
    gateway: hermes_trio.Gateway = request.app.state.gateway
    return await gateway.say(session, text)
