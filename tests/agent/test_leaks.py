"""Thousands of turns, however they end, leave nothing behind: no file, no task, no socket."""

from __future__ import annotations

import gc
from pathlib import Path

import psutil
import pytest
import trio

from hermes_trio.agent.providers.model_clients import MOST_IDLE
from hermes_trio.cli.logs import log_to_file
from hermes_trio.config.schema import GatewayConfig
from hermes_trio.host.loop.task_tree import task_tree
from hermes_trio.testing.model_replies import Plain, Reply, refused
from hermes_trio.testing.model_server import RecordedRequest
from tests.agent.test_loop import Scene, scene
from tests.host.children.kinds import until

pytestmark = pytest.mark.skipif(not hasattr(psutil.Process, "num_fds"), reason="open files are not counted")

CROWD = 20
"""People who talk at the same time, each to a session of their own."""

ENDS: dict[str, Reply | Plain] = {
    "answered": Reply().says("Hello."),
    "with a tool": Reply().calls("spell", {"word": "cat"}).finishes("tool_calls"),
    "stopped": Reply().says("I begin.").hangs(),
    "refused": refused("openai", 401, "invalid_request_error", "No."),
    "broken off": Reply().says("Half of").breaks(),
}


def answer(asked: RecordedRequest) -> Reply | Plain:
    """As the person wants it to end; who got a tool's result is content."""
    last = asked.body["messages"][-1]
    # What had no answer stands in front of what is asked now.
    return (
        ENDS[last["content"].rpartition("\n\n")[2]]
        if last["role"] == "user"
        else Reply().says("It is spelled.")
    )


async def everybody_talks(told: Scene, how: str) -> None:
    """A turn of each, from what is said to the last words."""
    told.server.requests.clear()
    for chat in range(CROWD):
        await told.platform.says(how, chat=str(chat))
    await told.server.until(lambda: len(told.server.requests) >= CROWD)
    if how == "stopped":
        for chat in range(CROWD):
            await told.platform.says("/stop", chat=str(chat))
    await until(lambda: not told.gateway.work.running)
    with trio.fail_after(60):
        await told.gateway.chats.flushed()
        await told.server.until(lambda: told.server.open <= MOST_IDLE)


def held(told: Scene) -> tuple[int, int]:
    """How many files and sockets are open, and how many tasks there are, but for the connections that are
    kept for the next turn: both of their ends are here, and the task that serves them."""
    gc.collect()
    kept = told.server.open
    return psutil.Process().num_fds() - 2 * kept, len(list(task_tree())) - kept


@pytest.mark.parametrize(
    "turns", [300, pytest.param(10_000, marks=[pytest.mark.soak, pytest.mark.timeout(3600)])]
)
async def test_nothing_is_left_of_a_turn(tmp_path: Path, turns: int) -> None:
    # With the log that `run` has: what draws errors for people takes seconds for each.
    with log_to_file(tmp_path, GatewayConfig(), {}):
        await many_turns(tmp_path, turns)


async def many_turns(home: Path, turns: int) -> None:
    async with scene(home) as told:
        told.server.otherwise = answer
        for how in ENDS:
            await everybody_talks(told, how)
        before = held(told)
        for _ in range(turns // CROWD // len(ENDS)):
            for how in ENDS:
                await everybody_talks(told, how)
        # Lanes that are idle leave by themselves.
        await until(lambda: all(now <= then for now, then in zip(held(told), before, strict=True)))
