"""The official client of OpenAI, pointed at a stage, and agents for it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
from openai import AsyncOpenAI

from hermes_trio.gateway.facade import RunningGateway
from hermes_trio.gateway.turn.context import TurnContext
from hermes_trio.state.tables.session_entry import Usage
from tests.web.conftest import KEY, PATIENCE, WebStage

HELLO: list[Any] = [{"role": "user", "content": "hello"}]


@asynccontextmanager
async def official(stage: WebStage, key: str = KEY, **more: Any) -> AsyncIterator[AsyncOpenAI]:
    """Open the official client, which knows only the address and the key."""
    assert stage.web is not None
    async with AsyncOpenAI(
        base_url=f"{stage.web.address}/v1", api_key=key, timeout=PATIENCE, **{"max_retries": 0, **more}
    ) as client:
        yield client


def left(stage: WebStage) -> list[tuple[str, str]]:
    return [one[:2] for one in stage.agent.left]


async def at_rest(stage: WebStage, gateway: RunningGateway) -> None:
    await stage.until(lambda: not gateway.work.running)


async def using(turn: TurnContext) -> str:
    """An agent that reports its usage."""
    turn.usage = Usage(input_tokens=10, output_tokens=7, cache_read_tokens=5)
    await turn.say("Counted.")
    return "Counted."


async def complete(http: httpx.AsyncClient, *messages: tuple[str, str], **headers: str) -> httpx.Response:
    body = {"messages": [{"role": role, "content": text} for role, text in messages]}
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return await http.post("/v1/chat/completions", json=body, headers=named)


def said(response: httpx.Response) -> str:
    assert response.status_code == 200, response.text
    return str(response.json()["choices"][0]["message"]["content"])


class Parrot:
    """An agent that records the history it is given."""

    def __init__(self) -> None:
        self.knew: list[list[tuple[str, str]]] = []

    async def __call__(self, turn: TurnContext) -> str:
        await turn.requesting()
        self.knew.append([(row.role, row.content) for row in turn.history])
        return f"Heard {turn.said[0].text}."
