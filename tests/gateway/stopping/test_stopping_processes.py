"""Stops on the real clock: signals to a gateway process, a kill during the drain, and a command that does not
end. These tests measure no durations; the tests on the virtual clock do."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing, nullcontext
from pathlib import Path

import psutil
import pytest
import trio

from hermes_trio.base.world import World
from hermes_trio.gateway.turn.context import TurnContext
from hermes_trio.host.home.home_lock import is_locked
from hermes_trio.host.home.state_file import Status, read_status
from hermes_trio.host.loop.worker import worker_thread
from hermes_trio.host.processes.guard import open_guard
from hermes_trio.platform.contract import FOR_EVER, Traits
from hermes_trio.testing import LoopbackServer, MemoryPlatform, open_loopback
from tests.disk import Disk
from tests.host.children.kinds import until
from tests.stage import Stage

pytestmark = pytest.mark.skipif(os.name != "posix", reason="signals, and commands for a POSIX shell")

PATIENCE = 50.0
"""Seconds; longer than any step takes on a busy machine."""
CONFIG = """\
agent: {{restart_drain_timeout: 600}}
web: {{port: 0}}
platforms:
  loopback:
    allow_from: all
    port: {port}
    traits: {{edits: true, takes_keys_for: 1000000000}}
"""


@asynccontextmanager
async def draining_turn(
    home: Path, first: signal.Signals
) -> AsyncIterator[tuple[trio.Process, LoopbackServer]]:
    """Run a gateway process, send it this signal during a turn, and wait until its chat was told."""
    home.mkdir()
    async with open_loopback(traits=Traits(edits=True, takes_keys_for=FOR_EVER)) as server:
        (home / "config.yaml").write_text(CONFIG.format(port=server.port))
        async with running(home) as process:
            await server.says("work", chat="42")
            await server.until(lambda: "Working" in (server.chat("42").last or ""))
            process.send_signal(first)
            await server.until(lambda: "⚠ Gateway" in "".join(server.chat("42").texts))
            await until(lambda: status(home).gateway_state == "draining", PATIENCE)
            yield process, server


@asynccontextmanager
async def running(home: Path) -> AsyncIterator[trio.Process]:
    """Run one life of the gateway; it is killed if it still runs at the end of the block."""
    environ = {name: value for name, value in os.environ.items() if name != "INVOCATION_ID"}
    process = await trio.lowlevel.open_process(
        [sys.executable, "-m", "hermes_trio", "run"],
        env={**environ, "HERMES_HOME": str(home)},
        stdout=subprocess.DEVNULL,
    )
    try:
        yield process
    finally:
        process.kill()
        with trio.move_on_after(10, shield=True):
            await process.wait()


def status(home: Path) -> Status:
    found = read_status(home)
    assert found is not None
    return found


def cut_reasons(home: Path) -> list[str | None]:
    """Return the reasons of the cut turns."""
    with closing(sqlite3.connect(home / "gateway.db")) as db:
        return [reason for (reason,) in db.execute("SELECT reason FROM turns WHERE outcome = 'cut'")]


@pytest.mark.parametrize(
    ("signals", "code", "state"),
    [
        (("SIGTERM", "SIGTERM"), 1, "running"),
        (("SIGINT", "SIGINT"), 0, "stopped"),
        (("SIGINT", "SIGTERM"), 0, "stopped"),
        (("SIGUSR1", "SIGINT", "SIGINT"), 0, "stopped"),
    ],
)
async def test_a_second_signal_ends_the_grace_of_the_first_stop(
    tmp_path: Path, signals: tuple[str, ...], code: int, state: str
) -> None:
    home, (first, *others) = tmp_path / "home", (signal.Signals[name] for name in signals)
    with trio.fail_after(PATIENCE):
        async with draining_turn(home, first) as (process, _):
            for number in others:
                process.send_signal(number)
                await trio.sleep(0.5)  # two pending signals of one kind are delivered as one
            assert await process.wait() == code
    assert status(home).gateway_state == state
    assert cut_reasons(home) == ["shutdown_timeout"]
    assert not is_locked(home)


async def test_a_turn_killed_during_the_drain_is_resumed_with_the_reason_of_the_stop(tmp_path: Path) -> None:
    home = tmp_path / "home"
    with trio.fail_after(PATIENCE):
        async with draining_turn(home, signal.SIGTERM) as (process, server):
            process.kill()
            await process.wait()
            assert (status(home).gateway_state, status(home).after) == ("draining", "running")
            assert not is_locked(home)
            async with running(home):
                await server.until(lambda: "Where was I?" in (server.chat("42").last or ""))
        assert cut_reasons(home) == ["shutdown_timeout"]
        assert server.chat("42").texts[0].endswith("(interrupted)")


def is_alive(process: psutil.Process) -> bool:
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


# --- everything hangs, with a command ------------------------------------------------------------------


async def test_a_command_that_ignores_signals_ends_with_a_gateway_in_which_everything_hangs(
    real_stage: Stage,
) -> None:
    stubborn = "trap '' TERM INT HUP QUIT; echo ready; while :; do sleep 300; done"
    journal = Disk(only=("journal-writer", "journal-reader"), usual=worker_thread)
    commands: list[psutil.Process] = []
    works = trio.Event()

    async def agent(turn: TurnContext) -> str:
        if not turn.said:
            return "All done."
        await turn.say("I begin.")
        async with turn.running(stubborn) as process:
            await process.output.beyond(0)
            leader = psutil.Process(process.id.pid)
            commands.extend([leader, *leader.children(recursive=True)])
            works.set()
            await process.wait()
        return "It ended."

    real_stage.world = World()
    real_stage.opened_agent = nullcontext(agent)
    real_stage.guarded, real_stage.worker = open_guard, journal.worker
    with trio.fail_after(PATIENCE):
        async with real_stage.life() as gateway:
            await real_stage.platform.says("work")
            await works.wait()
            await real_stage.platform.until(lambda: real_stage.platform.chat("42").texts != [])
            journal.hangs = True
            real_stage.platform.hangs("send", times=99)
            real_stage.platform.hangs("edit", times=99)
            real_stage.platform.disconnect_takes = 0.5
            asked_at = trio.current_time()
            gateway.stop(grace=1)
    assert real_stage.ended_at is not None
    assert real_stage.ended_at - asked_at < 20, "six seconds, with a margin for a slow machine"
    assert not any(map(is_alive, commands))
    assert not is_locked(real_stage.home)

    real_stage.platform = MemoryPlatform(traits=real_stage.platform.traits)
    real_stage.worker = worker_thread
    with trio.fail_after(PATIENCE):
        async with real_stage.life():
            await real_stage.platform.until(lambda: real_stage.platform.chat("42").last == "All done.")
    assert [turn.outcome for turn in real_stage.turns()] == ["cut", "answered"]
