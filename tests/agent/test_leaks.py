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
from tests.agent.agent_scene import Scene, open_scene
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


async def everybody_talks(scene: Scene, how: str) -> None:
    """A turn of each, from what is said to the last words."""
    scene.server.requests.clear()
    for chat in range(CROWD):
        await scene.platform.says(how, chat=str(chat))
    await scene.server.until(lambda: len(scene.server.requests) >= CROWD)
    if how == "stopped":
        for chat in range(CROWD):
            await scene.platform.says("/stop", chat=str(chat))
    await until(lambda: not scene.gateway.work.running)
    with trio.fail_after(60):
        await scene.gateway.chats.flushed()
        await scene.server.until(lambda: scene.server.open <= MOST_IDLE)


def held(scene: Scene) -> tuple[int, int]:
    """How many files and sockets are open, and how many tasks there are, but for the connections that are
    kept for the next turn: both of their ends are here, and the task that serves them."""
    gc.collect()
    kept = scene.server.open
    return psutil.Process().num_fds() - 2 * kept, len(list(task_tree())) - kept


@pytest.mark.parametrize(
    "turns", [300, pytest.param(10_000, marks=[pytest.mark.soak, pytest.mark.timeout(3600)])]
)
async def test_nothing_is_left_of_a_turn(tmp_path: Path, turns: int) -> None:
    # With the log that `run` has: what draws errors for people takes seconds for each.
    with log_to_file(tmp_path, GatewayConfig(), {}):
        await many_turns(tmp_path, turns)


async def many_turns(home: Path, turns: int) -> None:
    async with open_scene(home) as scene:
        scene.server.otherwise = answer
        for how in ENDS:
            await everybody_talks(scene, how)
        before = held(scene)
        for _ in range(turns // CROWD // len(ENDS)):
            for how in ENDS:
                await everybody_talks(scene, how)
        # Lanes that are idle leave by themselves.
        await until(lambda: all(now <= then for now, then in zip(held(scene), before, strict=True)))
