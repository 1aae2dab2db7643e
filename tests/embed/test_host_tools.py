"""Tools of the program: functions that a model calls, on every loop, within the turn."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import anyio
import pytest
import trio

from hermes_trio import (
    ApprovalRequest,
    AsyncioTurn,
    BlockingTurn,
    GatewayConfig,
    ModelConfig,
    ToolCompleted,
    ToolStarted,
    Turn,
    asyncio_agent,
    asyncio_tool,
    blocking,
    blocking_agent,
    open_gateway,
)
from hermes_trio.base.errors import AgentInvalid
from hermes_trio.embed.guest_run import join_guest
from hermes_trio.testing.model_replies import Reply
from hermes_trio.testing.model_server import ModelServer, open_model_server
from hermes_trio.tools import ToolInvalid, function_tool
from tests.stage import Agent

from .hosts import EVERY_HOST, Host
from .test_foreign_agents import NEEDS_TRIO_ASYNCIO

every_host = pytest.mark.parametrize("host", EVERY_HOST)
told: list[str] = []
tenant: ContextVar[str] = ContextVar("tenant")


@pytest.fixture(autouse=True)
def _no_trio_asyncio(request: pytest.FixtureRequest) -> None:
    """Leave the tools of asyncio on Trio to the process of `test_asyncio_on_trio`."""
    if ("asyncio-trio]" in request.node.name) is not (NEEDS_TRIO_ASYNCIO in os.environ):
        pytest.skip("in the other process")


@pytest.fixture(autouse=True)
def _nothing_told() -> None:
    told.clear()


async def price(article: str, amount: int = 1) -> str:
    """Returns the price of an article."""
    return await _priced(article, amount, trio.sleep)


@asyncio_tool
async def price_on_asyncio(article: str, amount: int = 1) -> str:
    """Returns the price of an article, from what needs asyncio."""
    return await _priced(article, amount, asyncio.sleep)


async def _priced(article: str, amount: int, sleep: Callable[[float], Any]) -> str:
    await sleep(0.001)
    if article == "gold":
        raise LookupError(f"no price, and the key is {os.environ['SHOP_API_KEY']}")
    if article == "time":
        told.append("began")
        try:
            await sleep(3600)
        finally:
            told.append("tidied")
    return f"{tenant.get()}: {amount * 2} for {article}"


def price_in_thread(article: str, amount: int = 1) -> str:
    """Returns the price of an article, and blocks."""
    if article == "gold":
        raise LookupError(f"no price, and the key is {os.environ['SHOP_API_KEY']}")
    if article == "time":
        told.append("began")
        try:
            while True:
                trio.from_thread.check_cancelled()
                release.wait(0.01)
        finally:
            told.append("tidied")
    return f"{tenant.get()}: {amount * 2} for {article}"


release = threading.Event()
COLOURS = [price, price_on_asyncio, price_in_thread]


@asynccontextmanager
async def model_server(host: Host) -> AsyncIterator[ModelServer]:
    """Run a model server on Trio, whatever the host is."""
    if host is trio.run:
        async with open_model_server() as server:
            yield server
    else:
        async with join_guest() as guest, guest.entered(open_model_server()) as server:
            yield server


def answers_by(server: ModelServer) -> GatewayConfig:
    """Return a configuration whose model is this server."""
    return GatewayConfig(
        model=ModelConfig(provider="openai", base_url=server.openai_url, name="m", api_key="k")
    )


@every_host
@pytest.mark.parametrize("tool", COLOURS, ids=["trio", "asyncio", "blocking"])
def test_the_model_of_the_configuration_calls_a_function(
    host: Host, tool: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = "sk-shop-" + "x" * 24
    monkeypatch.setenv("SHOP_API_KEY", secret)
    name = tool.__name__

    async def main() -> None:
        tenant.set("ours")
        async with model_server(host) as server:
            server.answers(
                Reply().says("I look.").calls(name, '{"article": "tea", "amount": 3}'),
                Reply().calls(name, '{"artikel": "tea"}'),
                Reply().calls(name, '{"article": "gold"}'),
                Reply().says("Six."),
            )
            async with open_gateway(tmp_path, answers_by(server), tools=[tool]) as gateway:
                assert (await gateway.say("one", "What is three tea?")).endswith("Six.")
                rows = await gateway.history("one")
            offered = [each["function"]["name"] for each in server.requests[0].body["tools"]]
        assert name in offered
        assert "terminal" not in offered
        price, unknown, failed = [row for row in rows if row.role == "tool"]
        assert (price.content, price.status) == ("ours: 6 for tea", "ok")
        assert "unknown field `artikel`" in unknown.content
        assert f"{name} failed (LookupError: no price, and the key is" in failed.content
        assert not any(secret in row.content for row in rows)
        assert all(secret not in str(request.body) for request in server.requests)

    host(main)


@every_host
@pytest.mark.parametrize("tool", COLOURS, ids=["trio", "asyncio", "blocking"])
def test_a_function_ends_with_the_turn_that_called_it(host: Host, tool: Any, tmp_path: Path) -> None:
    async def main() -> None:
        async with model_server(host) as server:
            server.answers(Reply().calls(tool.__name__, '{"article": "time"}'))
            async with open_gateway(tmp_path, answers_by(server), tools=[tool]) as gateway:
                async with gateway.run("How late is it?") as run:
                    async for event in run:
                        if isinstance(event, ToolStarted):
                            break
                    with anyio.fail_after(10):
                        while not told:  # noqa: ASYNC110 - a function of any colour tells it
                            await anyio.sleep(0.01)
                assert told == ["began", "tidied"]

    host(main)


removed: list[str] = []


async def remove(account: str) -> None:
    """Removes an account."""
    removed.append(account)


@pytest.mark.parametrize("answer", ["once", "deny"])
async def test_a_function_that_needs_approval_waits_for_a_person(answer: str, tmp_path: Path) -> None:
    removed.clear()
    tool = function_tool(remove, needs_approval=True)
    async with open_model_server() as server:
        server.answers(Reply().calls("remove", '{"account": "bob"}'), Reply().says("Well."))
        async with (
            open_gateway(tmp_path, answers_by(server), tools=[tool]) as gateway,
            gateway.run("Remove bob.", session="one") as run,
        ):
            async for event in run:
                if isinstance(event, ApprovalRequest):
                    assert event.command == 'remove {"account":"bob"}'
                    assert event.description == "This calls remove."
                    assert removed == []
                    assert await run.answer(event.approval_id, answer)
            results = [row for row in await gateway.history("one") if row.role == "tool"]
    assert removed == (["bob"] if answer == "once" else [])
    assert [row.content == "Done." for row in results] == [answer == "once"]


async def shop(turn: Turn) -> str:
    """Answer with a tool."""
    return (await turn.call_tool(PRICE, turn.prompt)).content


@asyncio_agent
async def shop_on_asyncio(turn: AsyncioTurn) -> str:
    """Answer with a tool, on asyncio."""
    return (await turn.call_tool(PRICE, turn.prompt)).content


@blocking_agent
def shop_in_thread(turn: BlockingTurn) -> str:
    """Answer with a tool, in a thread."""
    return turn.call_tool(PRICE, turn.prompt).content


PRICE = function_tool(price)


@every_host
@pytest.mark.parametrize(
    "agent", [shop, shop_on_asyncio, shop_in_thread], ids=["trio", "asyncio", "blocking"]
)
def test_an_agent_of_any_colour_calls_a_tool(host: Host, agent: Any, tmp_path: Path) -> None:
    async def main() -> None:
        tenant.set("ours")
        async with open_gateway(tmp_path, agent=agent) as gateway:
            async with gateway.run('{"article": "tea"}', session="one") as run:
                events = [type(event) async for event in run]
            rows = [(row.role, row.content) for row in await gateway.history("one")]
            assert "are wrong" in await gateway.say("one", "[]")
        assert events[:2] == [ToolStarted, ToolCompleted]
        assert rows[1:] == [
            ("assistant", ""),
            ("tool", "ours: 2 for tea"),
            ("assistant", "ours: 2 for tea"),
        ]

    host(main)


def remember(text: str) -> None: ...


async def test_what_cannot_be_a_tool_is_refused_at_opening(tmp_path: Path) -> None:
    with pytest.raises(ToolInvalid, match="it has no docstring"):
        async with open_gateway(tmp_path, tools=[price, remember]):
            pytest.fail("it is open")
    with pytest.raises(AgentInvalid, match="would not see `tools`"):
        async with open_gateway(tmp_path, agent=Agent(), tools=[price]):
            pytest.fail("it is open")
    assert not (tmp_path / "gateway.db").exists()


def test_without_an_agent_and_a_model_the_demo_answers_a_blocking_program(tmp_path: Path) -> None:
    with blocking.open_gateway(tmp_path, tools=[price_in_thread]) as gateway:
        assert gateway.say("one", "good morning") == "You said: good morning"
