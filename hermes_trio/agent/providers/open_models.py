"""Opening of the models of a turn: their HTTP clients, retries and the fallback model."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from ...base.world import World
from .endpoint import Endpoint
from .model import Model
from .model_clients import Http, httpx
from .retry import RetryingModel
from .wire.anthropic import AnthropicMessages
from .wire.openai import ChatCompletions


@asynccontextmanager
async def open_model(
    http: Http, endpoints: Sequence[Endpoint], world: World, *, retries: int
) -> AsyncIterator[RetryingModel]:
    """Open a model for one turn: the first endpoint, or the next one if that cannot answer. Connections are
    kept for the next request of the turn, and given back at the end of the block."""
    async with http.clients(endpoints) as clients:
        models = [_model(*of_model, world) for of_model in zip(endpoints, clients, strict=True)]
        yield RetryingModel(models, retries=retries, jitter=world.jitter)


def _model(endpoint: Endpoint, client: httpx.AsyncClient, world: World) -> Model:
    model_type = AnthropicMessages if endpoint.provider == "anthropic" else ChatCompletions
    return model_type(client, endpoint, world)
