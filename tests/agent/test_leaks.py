"""Thousands of turns with every outcome leave no open file, no task, no socket, and no garbage."""

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
from tests.cyclic_garbage import cyclic_garbage
from tests.host.children.kinds import until

pytestmark = pytest.mark.skipif(not hasattr(psutil.Process, "num_fds"), reason="open files are not counted")

CROWD = 20
"""Number of people who talk at the same time, each in their own session."""

ENDS: dict[str, Reply | Plain] = {
    "answered": Reply().says("Hello."),
    "with a tool": Reply().calls("spell", {"word": "cat"}).finishes("tool_calls"),
    "stopped": Reply().says("I begin.").hangs(),
    "refused": refused("openai", 401, "invalid_request_error", "No."),
    "broken off": Reply().says("Half of").breaks(),
}


def answer(asked: RecordedRequest) -> Reply | Plain:
    """Return the reply that the message of the person names; after the result of a tool, a final answer."""
    last = asked.body["messages"][-1]
    # Unanswered messages come before the current one.
    return (
        ENDS[last["content"].rpartition("\n\n")[2]]
        if last["role"] == "user"
        else Reply().says("It is spelled.")
    )


async def everybody_talks(scene: Scene, how: str) -> None:
    """Run one turn for each person, from the message to the delivered answer."""
    scene.server.requests.clear()
    for chat in range(CROWD):
        await scene.platform.says(how, chat=str(chat))
    with trio.fail_after(60):  # not the timeout of pytest, which would break the later tests of this process
        await scene.server.until(lambda: len(scene.server.requests) >= CROWD)
    if how == "stopped":
        for chat in range(CROWD):
            await scene.platform.says("/stop", chat=str(chat))
    await until(lambda: not scene.gateway.work.running)
    with trio.fail_after(60):
        await scene.gateway.chats.flushed()
        await scene.server.until(lambda: scene.server.open <= MOST_IDLE)


def held(scene: Scene) -> tuple[int, int]:
    """Return the number of open files and sockets, and the number of tasks. Connections that are kept for the
    next turn are not counted: both ends of each are in this process, and so is the task that serves it."""
    gc.collect()
    kept = scene.server.open
    return psutil.Process().num_fds() - 2 * kept, len(list(task_tree())) - kept


@pytest.mark.parametrize(
    "turns", [300, pytest.param(10_000, marks=[pytest.mark.soak, pytest.mark.timeout(3600)])]
)
async def test_turns_of_every_outcome_leave_no_file_socket_or_task(tmp_path: Path, turns: int) -> None:
    # With the file log of `run`: the log that formats errors for a terminal takes seconds for each.
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
        # Idle lanes end by themselves after a while.
        await until(lambda: all(now <= then for now, then in zip(held(scene), before, strict=True)))


@pytest.mark.parametrize("how", ENDS)
async def test_a_turn_leaves_nothing_to_the_garbage_collector(tmp_path: Path, how: str) -> None:
    """In our own program the collector looks at all objects only now and then, so what waits for it is kept
    in memory meanwhile."""
    with log_to_file(tmp_path, GatewayConfig(), {}):
        async with open_scene(tmp_path) as scene:
            scene.server.otherwise = answer
            await everybody_talks(scene, how)
            with cyclic_garbage() as garbage:
                await everybody_talks(scene, how)
            assert not garbage
