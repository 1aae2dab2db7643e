"""`hermes-trio drain` as an operator uses it: the gateway runs in this process or in another one, and the
command in a process of its own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import trio
from click.testing import CliRunner, Result

from hermes_trio.base.world import World
from hermes_trio.cli import main
from hermes_trio.config.schema import AgentConfig
from hermes_trio.gateway.ending.control import Control
from hermes_trio.gateway.ending.triggers import watch_drain_request
from hermes_trio.gateway.facade import RunningGateway
from hermes_trio.gateway.serve import Setup, serve
from hermes_trio.host.home.markers import DRAIN_REQUEST
from hermes_trio.platform.contract import Traits
from hermes_trio.testing import MemoryPlatform, Script
from tests.cli.chat.chat_terminal import chat
from tests.stage import Agent, everyone, no_guard

Cli = Callable[..., Result]

MOMENT = 30.0


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    def run(*arguments: str) -> Result:
        return CliRunner().invoke(main, ["drain", *arguments], env={"HERMES_HOME": str(tmp_path)})

    return run


def test_a_drain_can_begin_and_be_cancelled_without_a_gateway(cli: Cli, tmp_path: Path) -> None:
    assert cli("status").stdout == "There is no drain.\nNo gateway is running.\n"
    assert cli("cancel").stdout == "There is no drain.\n"
    assert cli("begin", "--wait").stdout.startswith("No gateway is running. The next one begins no turns")
    assert (tmp_path / DRAIN_REQUEST).exists()
    drained, gateway = cli("status").stdout.splitlines()
    assert re.fullmatch(
        r"Drained by hermes-trio drain begin since [\d-]{10} \d\d:\d\d; the drain ends after a day\.", drained
    )
    assert gateway == "No gateway is running."
    assert cli("cancel").stdout == "The drain is cancelled. No gateway is running.\n"
    assert not (tmp_path / DRAIN_REQUEST).exists()


def test_the_status_of_a_quiet_drain_says_so(cli: Cli) -> None:
    cli("begin", "--quiet")
    assert ", and no home channel is told if the gateway ends; " in cli("status").stdout


def test_a_chat_is_drained_like_any_gateway(cli: Cli, tmp_path: Path) -> None:
    with chat(tmp_path) as terminal:
        assert cli("begin").stdout == "No new turns begin, and no turn runs.\n"
        terminal.types("are you there?")
        terminal.shows("Your message is kept here, and sent again.")
        assert cli("cancel").exit_code == 0
        terminal.shows("You said: are you there?")


def test_a_damaged_drain_request_is_in_force_and_is_reported(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / DRAIN_REQUEST).write_text("{")
    lines = cli("status").stdout.splitlines()
    assert lines[0].startswith(f"Note: {DRAIN_REQUEST} is damaged")
    assert lines[1].startswith("Drained since ")


async def drain(home: Path, *arguments: str) -> str:
    """Run the command in a separate process, and return its output."""
    program = [sys.executable, "-m", "hermes_trio", "drain", *arguments]
    result = await trio.run_process(
        program,
        env={**os.environ, "HERMES_HOME": str(home)},
        capture_stdout=True,
        capture_stderr=True,
        check=False,
    )
    return (result.stdout + result.stderr).decode()


async def serving(
    home: Path, agent: Agent, platform: MemoryPlatform, *, watched: bool = True,
    task_status: trio.TaskStatus[RunningGateway] = trio.TASK_STATUS_IGNORED,
) -> None:  # fmt: skip
    """Run a gateway on the real clock, as `run` does."""
    control, world = Control(), World()
    async with trio.open_nursery() as watcher:
        if watched:
            await watcher.start(watch_drain_request, control, home, world)
        config = everyone(AgentConfig())
        setup = Setup(home, config, agent=agent, adapters=[platform], world=world, guarded=no_guard)
        await serve(setup, control=control, task_status=task_status)
        watcher.cancel_scope.cancel()


async def test_a_drain_from_begin_to_cancel(tmp_path: Path) -> None:
    agent, platform = Agent(), MemoryPlatform(traits=Traits(edits=True))
    agent.on("work", Script().says("I begin.").hangs())
    said: list[str] = []
    with trio.fail_after(4 * MOMENT):
        async with trio.open_nursery() as nursery:
            gateway: RunningGateway = await nursery.start(serving, tmp_path, agent, platform)
            await platform.says("work")
            await platform.until(lambda: platform.chat("42").last == "I begin.")
            begun = await drain(tmp_path, "begin")
            assert begun.startswith("No new turns begin. 1 turn still runs.\n`hermes-trio drain status`")
            assert (await drain(tmp_path, "status")).endswith("1 turn still runs.\n")
            await platform.says("hello", chat="2")
            await platform.until(lambda: len(platform.chat("2").texts) == 1)

            async def wait_for_the_last() -> None:
                said.append(await drain(tmp_path, "begin", "--wait"))

            async with trio.open_nursery() as waiting:
                waiting.start_soon(wait_for_the_last)
                await trio.sleep(1)
                assert said == [], "a turn runs"
                await platform.says("/stop")
            assert said == [
                "No new turns begin. 1 turn still runs. Waiting for the last.\nNo turn runs any more.\n"
            ]
            assert await drain(tmp_path, "begin") == "No new turns begin, and no turn runs.\n"
            assert agent.began[1:] == []
            assert await drain(tmp_path, "cancel") == (
                "The drain is cancelled. The gateway answers the waiting messages.\n"
            )
            await platform.until(lambda: platform.chat("2").last == "You said: hello")
            gateway.stop(grace=0)


async def test_a_waiting_command_ends_with_an_error_if_the_drain_is_cancelled(tmp_path: Path) -> None:
    agent, platform = Agent(), MemoryPlatform(traits=Traits(edits=True))
    agent.on("work", Script().says("I begin.").hangs())
    with trio.fail_after(4 * MOMENT):
        async with trio.open_nursery() as nursery:
            gateway: RunningGateway = await nursery.start(serving, tmp_path, agent, platform)
            await platform.says("work")
            await platform.until(lambda: platform.chat("42").last == "I begin.")
            program = [sys.executable, "-m", "hermes_trio", "drain", "begin", "--wait"]
            environ = {**os.environ, "HERMES_HOME": str(tmp_path)}
            waiting = await trio.lowlevel.open_process(
                program, env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE
            )
            assert waiting.stdout is not None
            assert waiting.stderr is not None
            heard = b""
            while b"Waiting for the last." not in heard:
                heard += await waiting.stdout.receive_some()
            await drain(tmp_path, "cancel")
            assert await waiting.wait() == 1
            said = await waiting.stderr.receive_some()
            assert b"error: the drain was cancelled meanwhile" in said
            gateway.stop(grace=0)


async def test_a_gateway_that_ignores_the_drain_is_reported(tmp_path: Path) -> None:
    with trio.fail_after(4 * MOMENT):
        async with trio.open_nursery() as nursery:
            gateway: RunningGateway = await nursery.start(
                lambda task_status: serving(
                    tmp_path, Agent(), MemoryPlatform(), watched=False, task_status=task_status
                )
            )
            await gateway.home.board.written()
            said = await trio.to_thread.run_sync(
                lambda: CliRunner().invoke(main, ["drain", "begin"], env={"HERMES_HOME": str(tmp_path)})
            )
            assert said.exit_code == 1
            assert "the gateway does not react" in said.stderr
            gateway.stop(grace=0)
