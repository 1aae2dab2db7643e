"""Cases of the shutdown of the gateway: interrupted turns, notices, files that are left, and their order.

They run on the real gateway with the platform in memory. The original kept sets of tasks; here the end of a
scope takes their place, and the cases assert what those sets protected.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest
import trio
import trio.lowlevel
import trio.testing

from hermes_trio.base.messages import HomeChannel
from hermes_trio.cli.subcommands.run_command import exit_code
from hermes_trio.embed.embedding import open_gateway
from hermes_trio.gateway.ending.endings_table import (
    GATEWAY_SERVICE_RESTART_EXIT_CODE,
    Cause,
    Ending,
    supervisor,
)
from hermes_trio.gateway.turn.context import TurnContext
from hermes_trio.host.home.markers import RESTART_PENDING
from hermes_trio.host.home.state_file import read_status
from hermes_trio.testing import MemoryPlatform, Script
from hermes_trio.testing.stage import What
from tests.stage import Stage


async def test_cancel_background_tasks_cancels_inflight_message_processing(stage: Stage) -> None:
    stage.agent.on("work", Script().hangs())
    async with stage.life() as gateway:
        await stage.says("work")
        gateway.stop(grace=0)
    assert stage.agent.left == [("work", "cancelled", 0.0)]
    assert not gateway.work.running
    assert not stage.platform.connected


async def test_cleanup_agent_resources_reaps_stale_aux_clients(stage: Stage) -> None:
    """An agent that is a context is closed once, after its last turn."""
    closed: list[str] = []

    @asynccontextmanager
    async def agent() -> AsyncIterator[Callable[[TurnContext], Awaitable[str]]]:
        try:
            yield stage.agent
        finally:
            closed.append("memory, clients and caches")

    stage.opened_agent = agent()
    stage.agent.on("work", Script().takes(3).says("Done."))
    async with stage.life() as gateway:
        await stage.says("work")
        gateway.stop(grace=10)
        assert closed == []
    assert closed == ["memory, clients and caches"]
    assert stage.agent.left == [("work", "answered", 3.0)]


async def test_gateway_stop_interrupts_running_agents_and_cancels_adapter_tasks(stage: Stage) -> None:
    stage.agent.on("work", Script().hangs())
    async with stage.life() as gateway:
        await stage.says("work")
        gateway.stop(grace=0)
    assert stage.agent.left == [("work", "cancelled", 0.0)]
    assert stage.turns()[0].reason == "shutdown_timeout"
    assert [step.what for step in stage.platform.history].count("disconnect") == 1
    assert stage.ended_at == 0


async def test_gateway_stop_drains_running_agents_before_disconnect(stage: Stage) -> None:
    stage.agent.on("work", Script().takes(0.05).says("Done."))
    async with stage.life() as gateway:
        await stage.says("work")
        gateway.stop(grace=5)
    assert stage.agent.left == [("work", "answered", 0.05)]
    assert stage.platform.history[-1].what == "disconnect"
    assert stage.ended_at == 0.05


async def test_gateway_stop_interrupts_after_drain_timeout(stage: Stage) -> None:
    stage.agent.on("work", Script().hangs())
    async with stage.life() as gateway:
        await stage.says("work")
        gateway.stop(grace=0.05)
    assert stage.agent.left == [("work", "cancelled", 0.05)]
    assert stage.platform.history[-1].what == "disconnect"


TOPIC = {"thread_id": "7"}


async def test_restart_shutdown_warning_uses_restart_command_reply_anchor_for_active_session(
    stage: Stage,
) -> None:
    stage.allow(home_channel=HomeChannel("memory", "42", thread_id="7"))
    stage.agent.on("work", Script().hangs())
    async with stage.life():
        await stage.says("work", **TOPIC)
        await stage.says("/restart", message_id="restart-1", **TOPIC)
    notices = [m for m in stage.platform.chat("42").messages if "Gateway restarting" in m.text]
    assert [(m.thread_id, m.reply_to) for m in notices] == [("7", "restart-1")]


async def test_in_chat_restart_skips_home_shutdown_even_with_active_session(stage: Stage) -> None:
    stage.allow(home_channel=HomeChannel("memory", "home"))
    stage.agent.on("work", Script().hangs())
    async with stage.life():
        await stage.says("work", **TOPIC)
        await stage.says("/restart", message_id="restart-1", **TOPIC)
    assert stage.platform.chat("home").texts == []
    notices = [m for m in stage.platform.chat("42").messages if "Gateway restarting" in m.text]
    assert [m.reply_to for m in notices] == ["restart-1"]


async def test_idle_in_chat_restart_does_not_send_interruption_warning(stage: Stage) -> None:
    stage.allow(home_channel=HomeChannel("memory", "home"))
    async with stage.life():
        await stage.says("/restart")
    assert not any("interrupted" in text for text in stage.platform.chat("42").texts)
    assert stage.platform.chat("home").texts == []


async def test_in_chat_restart_does_not_write_home_startup_marker(stage: Stage) -> None:
    async with stage.life():
        await stage.says("/restart")
    assert not (stage.home / RESTART_PENDING).exists()
    async with stage.life() as gateway:
        gateway.stop(restart=True)
    assert (stage.home / RESTART_PENDING).exists(), "this restart came from no chat"


async def test_drain_active_agents_throttles_status_updates(stage: Stage) -> None:
    stage.agent.on("quick", Script().takes(0.12).says("Done."))
    stage.agent.on("slow", Script().takes(0.24).says("Done."))
    async with stage.life() as gateway:
        await stage.says("quick", "1")
        await stage.says("slow", "2")
        await trio.lowlevel.checkpoint()
        began = trio.current_time()
        written = stage.status_writes
        before = len(written)
        gateway.stop(grace=5)
    during = [at - began for at in written[before:]]
    assert 3 <= len(during) <= 4


async def test_signal_initiated_shutdown_persists_running_not_stopped(stage: Stage) -> None:
    async with stage.life() as gateway:
        gateway.control.ask(Ending(Cause.SIGNAL, grace=0))
    status = read_status(stage.home)
    assert status is not None
    assert status.gateway_state == "running"


async def test_operator_initiated_stop_persists_stopped(stage: Stage) -> None:
    async with stage.life() as gateway:
        gateway.stop()
    status = read_status(stage.home)
    assert status is not None
    assert status.gateway_state == "stopped"


async def test_signal_initiated_restart_still_persists_stopped(stage: Stage) -> None:
    async with stage.life() as gateway:
        gateway.control.ask(Ending(Cause.RESTART, grace=0, asked_by="SIGUSR1"))
    status = read_status(stage.home)
    assert status is not None
    assert status.gateway_state == "stopped"


# --- the exit of the process -------------------------------------------------------------------------


@pytest.fixture
def systemctl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A `systemctl` on the PATH that records its calls, and fails if there is a file `refuses`."""
    folder = tmp_path / "bin"
    folder.mkdir()
    calls = folder / "calls"
    script = folder / "systemctl"
    script.write_text(f'#!/bin/sh\necho "$@" >> {calls}\ntest ! -e {folder}/refuses\n')
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    monkeypatch.setenv("INVOCATION_ID", "of this unit")
    monkeypatch.delenv("SYSTEMD_EXEC_PID", raising=False)
    monkeypatch.setenv("HERMES_SYSTEMD_UNIT", "hermes-trio.service")
    monkeypatch.setenv("HERMES_SYSTEMD_SCOPE", "user")
    return calls


async def restarted(stage: Stage) -> int:
    """Run a life that is restarted from outside, and return the exit code of the process."""
    stage.supervised_by = supervisor(os.environ)
    async with stage.life() as gateway:
        gateway.stop(restart=True)
    ending = gateway.control.current
    assert ending is not None
    return exit_code(gateway.shutdown.consequences(ending).exit)


async def test_gateway_stop_systemd_service_restart_exits_cleanly(stage: Stage, systemctl: Path) -> None:
    assert await restarted(stage) == 0
    assert systemctl.read_text().splitlines() == ["--user --no-block restart hermes-trio.service"]
    assert (stage.home / RESTART_PENDING).exists()


async def test_a_restart_that_systemd_does_not_queue_is_asked_for_by_exit_code(
    stage: Stage, systemctl: Path
) -> None:
    (systemctl.parent / "refuses").touch()
    assert await restarted(stage) == GATEWAY_SERVICE_RESTART_EXIT_CODE == 75


async def test_gateway_stop_launchd_service_restart_keeps_nonzero_exit(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("INVOCATION_ID", raising=False)
    monkeypatch.setenv("XPC_SERVICE_NAME", "ai.hermes.gateway")
    assert await restarted(stage) == 75


# --- real processes, on the real clock -----------------------------------------------------------------


async def stop_with_a_process(stage: Stage, grace: float) -> tuple[psutil.Process, list[str]]:
    """Stop a gateway while a turn has a process that sleeps for minutes; return the process, and whether it
    was alive at each later call of the platform."""
    started, alive = trio.Event(), []
    child: list[psutil.Process] = []

    async def agent(turn: TurnContext) -> str:
        await turn.requesting()
        async with turn.running(["sleep", "300"]) as process:
            child.append(psutil.Process(process.id.pid))
            started.set()
            with trio.move_on_after(0.2 if grace else 300):
                await process.wait()
        return "Done."

    class Watched(MemoryPlatform):
        def note(self, what: What, *args: Any, **how: Any) -> None:
            if child:
                alive.append(f"{what}: {'alive' if _lives(child[0]) else 'ended'}")
            super().note(what, *args, **how)

    stage.platform = Watched()
    async with open_gateway(stage.home, stage.config, agent=agent, adapters=[stage.platform]) as gateway:
        await stage.platform.says("work")
        with trio.fail_after(20):
            await started.wait()
            gateway.stop(grace=grace)
            await stage.platform.until(lambda: not stage.platform.connected)
    return child[0], alive


def _lives(process: psutil.Process) -> bool:
    return process.is_running() and process.status() != psutil.STATUS_ZOMBIE


async def test_gateway_stop_kills_tool_subprocesses_before_adapter_disconnect_on_timeout(
    real_stage: Stage,
) -> None:
    process, alive = await stop_with_a_process(real_stage, grace=0)
    assert "disconnect: ended" in alive
    assert not _lives(process)


async def test_gateway_stop_kills_tool_subprocesses_on_graceful_path(real_stage: Stage) -> None:
    process, alive = await stop_with_a_process(real_stage, grace=10)
    assert "disconnect: ended" in alive
    assert not _lives(process)
