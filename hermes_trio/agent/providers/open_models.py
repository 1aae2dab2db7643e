"""Opening the models of a turn: clients, and what asks again."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager

from ...base.world import World
from .endpoint import Endpoint
from .model import Model
from .model_clients import Http
from .retry import RetryingModel
from .wire.anthropic import AnthropicMessages
from .wire.openai import ChatCompletions


@asynccontextmanager
async def open_model(
    http: Http, endpoints: Sequence[Endpoint], world: World, *, retries: int
) -> AsyncIterator[RetryingModel]:
    """A model for one turn: the first of these, or the next one when that cannot answer. Its connections
    are kept for the turn's next request, and end with the block."""
    async with AsyncExitStack() as clients:
        models: list[Model] = []
        for endpoint in endpoints:
            client = await clients.enter_async_context(http.client(endpoint))
            speaks = AnthropicMessages if endpoint.provider == "anthropic" else ChatCompletions
            models.append(speaks(client, endpoint, world))
        yield RetryingModel(models, retries=retries, jitter=world.jitter)
