"""Agents of any colour: each answers on every loop, is stopped with its turn, and leaves nothing behind."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
import trio

from hermes_trio import (
    ApprovalRequest,
    AsyncioTurn,
    BlockingTurn,
    MessageDelta,
    RunUnanswered,
    Turn,
    TurnOver,
    asyncio_agent,
    blocking_agent,
    open_gateway,
)

from .hosts import EVERY_HOST, Host

pytestmark = pytest.mark.parametrize("host", EVERY_HOST)
NEEDS_TRIO_ASYNCIO = "HERMES_TEST_TRIO_ASYNCIO"
"""The variable of the process that may load trio-asyncio, which changes asyncio for a whole process."""


@pytest.fixture(autouse=True)
def _no_trio_asyncio(request: pytest.FixtureRequest, host: Host) -> None:
    """Leave the agents of asyncio on Trio to the process of `test_asyncio_on_trio`."""
    of_asyncio = "asyncio" in request.node.name.partition("[")[2].removesuffix("-trio]")
    if (of_asyncio and host is trio.run) is not (NEEDS_TRIO_ASYNCIO in os.environ):
        pytest.skip("in the other process")


told: list[str] = []
"""The ends of the agents of the test that runs."""


@pytest.fixture(autouse=True)
def _nothing_told() -> None:
    told.clear()


async def on_trio(turn: Turn) -> str | None:
    """Answer with the loop, or begin and hang."""
    return await _answer(turn, trio.sleep)


async def on_anyio(turn: Turn) -> str | None:
    """Answer with what runs on either loop."""
    return await _answer(turn, anyio.sleep)


async def in_pieces(turn: Turn) -> AsyncIterator[str]:
    """Yield the answer in two pieces."""
    if "hang" in turn.prompt:
        yield "I begin."
        try:
            await trio.sleep_forever()
        finally:
            told.append("tidied")
    yield "You said: "
    yield turn.prompt


async def on_asyncio(turn: AsyncioTurn) -> str | None:
    """Answer with what needs asyncio."""
    return await _answer(turn, asyncio.sleep)


async def in_pieces_on_asyncio(turn: AsyncioTurn) -> AsyncIterator[str]:
    """Yield the answer in two pieces, with what needs asyncio."""
    if "hang" in turn.prompt:
        yield "I begin."
        try:
            await asyncio.sleep(3600)
        finally:
            told.append("tidied")
    await asyncio.sleep(0)
    yield "You said: "
    yield turn.prompt


async def _answer(turn: Any, sleep: Callable[[float], Any]) -> str | None:
    await sleep(0.001)
    if "fail" in turn.prompt:
        raise OSError("the disk is gone")
    if "hang" not in turn.prompt:
        await turn.say("You said: ")
        await turn.say(turn.prompt)
        return None
    await turn.say("I begin.")
    try:
        await sleep(3600)
    finally:
        told.append("tidied")
    return None


def blocking(turn: BlockingTurn) -> str | None:
    """Answer in a thread, or write until the turn is over."""
    if "fail" in turn.prompt:
        raise OSError("the disk is gone")
    if "hang" not in turn.prompt:
        turn.say("You said: ")
        turn.say(turn.prompt)
        return None
    turn.say("I begin.")
    try:
        while True:
            time.sleep(0.01)
            turn.say(".")
    except TurnOver:
        told.append("tidied")
        raise


AGENTS = [
    pytest.param(on_trio, id="trio"),
    pytest.param(on_anyio, id="anyio"),
    pytest.param(in_pieces, id="pieces"),
    pytest.param(asyncio_agent(on_asyncio), id="asyncio"),
    pytest.param(asyncio_agent(in_pieces_on_asyncio), id="asyncio pieces"),
    pytest.param(blocking_agent(blocking), id="blocking"),
]


@pytest.mark.parametrize("agent", AGENTS)
def test_an_agent_of_any_colour_answers(host: Host, agent: Any, tmp_path: Path) -> None:
    async def main() -> None:
        async with open_gateway(tmp_path, agent=agent) as gateway:
            assert await gateway.say("one", "hello") == "You said: hello"
            assert await gateway.say("one", "again") == "You said: again"

    host(main)


@pytest.mark.parametrize("agent", AGENTS)
def test_an_agent_of_any_colour_is_stopped_with_its_turn(host: Host, agent: Any, tmp_path: Path) -> None:
    async def main() -> None:
        async with open_gateway(tmp_path, agent=agent) as gateway:
            async with gateway.run("hang", session="one") as run:
                assert await anext(run) == MessageDelta("I begin.")
            assert told == ["tidied"]
            assert await gateway.say("one", "hello") == "You said: hello"
            async with gateway.run("hang", session="two") as run:
                assert await anext(run) == MessageDelta("I begin.")
                gateway.stop()
                await anyio.sleep(3600)  # cancelled by the end of the gateway
        assert told == ["tidied", "tidied"]

    host(main)


@pytest.mark.parametrize(
    "agent",
    [
        pytest.param(on_trio, id="trio"),
        pytest.param(asyncio_agent(on_asyncio), id="asyncio"),
        pytest.param(blocking_agent(blocking), id="blocking"),
    ],
)
def test_an_error_of_an_agent_is_the_end_of_its_turn(host: Host, agent: Any, tmp_path: Path) -> None:
    async def main() -> None:
        async with open_gateway(tmp_path, agent=agent) as gateway:
            with pytest.raises(RunUnanswered, match="the disk is gone"):
                await gateway.say("one", "fail")

    host(main)


def ask_in_thread(turn: BlockingTurn) -> str:
    """Ask for approval from a thread."""
    return f"{turn.may('rm -r build')} {turn.is_over}"


async def ask_in_asyncio(turn: AsyncioTurn) -> str:
    """Ask for approval from asyncio."""
    return f"{await turn.may('rm -r build')} False"


@pytest.mark.parametrize(
    "agent",
    [
        pytest.param(asyncio_agent(ask_in_asyncio), id="asyncio"),
        pytest.param(blocking_agent(ask_in_thread), id="blocking"),
    ],
)
def test_an_agent_of_any_colour_asks_for_approval(host: Host, agent: Any, tmp_path: Path) -> None:
    async def main() -> None:
        async with open_gateway(tmp_path, agent=agent) as gateway, gateway.run("clean") as run:
            asked = await anext(run)
            assert isinstance(asked, ApprovalRequest)
            assert await run.answer(asked.approval_id, "once")
            assert await run.result() == "once False"

    host(main)


def test_a_thread_that_only_looks_hears_that_its_turn_is_over(host: Host, tmp_path: Path) -> None:
    @blocking_agent
    def looking(turn: BlockingTurn) -> None:
        turn.say("I begin.")
        while not turn.is_over:
            time.sleep(0.01)
        told.append("tidied")

    async def main() -> None:
        async with open_gateway(tmp_path, agent=looking) as gateway:
            async with gateway.run("hello") as run:
                await anext(run)
            assert told == ["tidied"]

    host(main)


def test_a_thread_that_does_not_return_is_left_behind_and_named_in_the_log(
    host: Host, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    release, returned = threading.Event(), threading.Event()

    @blocking_agent
    def deaf(turn: BlockingTurn) -> str:
        turn.say("I begin.")
        release.wait()
        returned.set()
        return "too late"

    async def main() -> None:
        async with open_gateway(tmp_path, agent=deaf) as gateway:
            async with gateway.run("hello", session="one") as run:
                await anext(run)
            assert gateway.status().active_turns == 0
            assert [row.role for row in await gateway.history("one")] == ["user", "assistant"]
        assert not returned.is_set()

    with caplog.at_level(logging.WARNING):
        host(main)
    assert "thread left behind; its call does not return" in caplog.text
    release.set()
    assert returned.wait(10)
