"""Fixtures: a model server on this machine and its client. Every request is checked against the rules of its
wire format."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import settings

from hermes_trio.agent.providers.endpoint import Endpoint
from hermes_trio.agent.providers.model import Item, Model, ModelRequest, TextDelta, ToolSpec
from hermes_trio.agent.providers.model_clients import Http
from hermes_trio.agent.providers.model_errors import ModelError
from hermes_trio.agent.providers.model_messages import UserMessage
from hermes_trio.agent.providers.open_models import open_model
from hermes_trio.agent.providers.retry import RetryingModel
from hermes_trio.base.world import World
from hermes_trio.testing.model_replies import Wire
from hermes_trio.testing.model_server import ModelServer, open_model_server
from tests.agent.wire_rules import check

KEY = "sk-test-0123456789abcdef"
NOON = datetime(2026, 5, 20, 12, 0, tzinfo=UTC)
LIST_FILES = ToolSpec("ls", "List files.", {"type": "object", "properties": {"path": {"type": "string"}}})
HELLO = ModelRequest(messages=(UserMessage("Hello?"),), system="You help.", tools=(LIST_FILES,))

bounded = settings(max_examples=300)

OpenModel = Callable[..., AbstractAsyncContextManager[RetryingModel]]


@pytest.fixture(params=["openai", "anthropic"])
def wire(request: pytest.FixtureRequest) -> Wire:
    wire: Wire = request.param
    return wire


@pytest.fixture
async def server() -> AsyncIterator[ModelServer]:
    """The server. At the end, check that no connection is open and that every request keeps the rules."""
    async with open_model_server() as server:
        yield server
        await server.until(lambda: server.open == 0)
    for asked in server.requests:
        check(asked.path, asked.body)


@pytest.fixture
def endpoint(server: ModelServer, wire: Wire) -> Endpoint:
    url = server.openai_url if wire == "openai" else server.anthropic_url
    return Endpoint(wire, url, "test-model", KEY)


@pytest.fixture
def world() -> World:
    ids = iter(range(1, 1000))
    return World(now=lambda: NOON, new_id=lambda: f"{next(ids):x}", jitter=lambda: 0.0)


@pytest.fixture
def models(endpoint: Endpoint, world: World) -> OpenModel:
    """A function that opens a model; its arguments are the names of fallback models."""

    @asynccontextmanager
    async def opened(*fallbacks: str, retries: int = 0) -> AsyncIterator[RetryingModel]:
        endpoints = [endpoint, *(replace(endpoint, model=name) for name in fallbacks)]
        async with open_model(Http(), endpoints, world, retries=retries) as model:
            yield model

    return opened


async def answer(model: Model, request: ModelRequest = HELLO) -> list[Item]:
    """Return all items of an answer."""
    async with model.stream(request) as items:
        return [item async for item in items]


async def outcome(model: Model, request: ModelRequest = HELLO) -> tuple[list[Item], ModelError | None]:
    """Return the items of an answer that arrived, and the error after them, if any."""
    seen: list[Item] = []
    try:
        async with model.stream(request) as items:
            async for item in items:
                seen.append(item)  # noqa: PERF401 - keeps the items before an error
    except ModelError as error:
        return seen, error
    return seen, None


def text_of(items: list[Item]) -> str:
    return "".join(item.text for item in items if isinstance(item, TextDelta))
