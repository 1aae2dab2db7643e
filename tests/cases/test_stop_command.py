"""Cases of the command `hermes-trio stop`, against real processes: it announces before it signals, waits as
long as the gateway may take, needs proof of the end, and reports failures."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import pytest
import trio

from hermes_trio.host.home.home_lock import LOCK_FILE
from hermes_trio.host.home.markers import PLANNED_STOP
from hermes_trio.host.home.state_file import GatewayState, read_status
from hermes_trio.testing import open_loopback
from tests.host.children.kinds import alive, soon, token
from tests.machine import configure, environment, hermes, living

pytestmark = [
    pytest.mark.timeout(180),
    pytest.mark.skipif(os.name != "posix", reason="the stories send signals"),
]

STUBBORN = """
import os, sys
from pathlib import Path
import trio
from hermes_trio import load_config
from hermes_trio.gateway.links.adapters import find_adapters
from hermes_trio.gateway.ending.control import Control
from hermes_trio.gateway.ending.triggers import obey_signals
from hermes_trio.gateway.serve import Setup, serve
from hermes_trio.host.processes.process_identity import own
from hermes_trio.base.world import World

async def agent(turn):
    await turn.requesting()
    async with turn.running(sys.argv[1]) as process:
        await process.wait()

async def main():
    home = Path(os.environ["HERMES_HOME"])
    config, control, world = load_config(home, os.environ).config, Control(), World()
    async with trio.open_nursery() as nursery:
        await nursery.start(obey_signals, control, home, own(), world, config.agent.restart_drain_timeout)
        setup = Setup(home, config, agent=agent, adapters=find_adapters(config), world=world)
        await serve(setup, control=control)
        nursery.cancel_scope.cancel()

trio.run(main)
"""
"""Run a gateway whose agent runs the command of the message."""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    configure(tmp_path / "home")
    return tmp_path / "home"


async def test_marker_is_written_before_the_signal(home: Path) -> None:
    """The gateway takes its first signal for a planned stop, because the marker was already there."""
    async with living(home) as life:
        await life.up()
        done = await hermes("stop", environ=environment(home))
        assert (done.returncode, await life.ended()) == (0, 0)
        status = await life.until(lambda _: True)
    assert (status.gateway_state, status.exit_reason) == (GatewayState.STOPPED, "planned")
    assert not (home / PLANNED_STOP).exists(), "the marker was for this stop"


async def test_clean_drain_needs_no_force(home: Path) -> None:
    async with open_loopback() as platform:
        configure(home, port=platform.port, grace=60)
        async with living(home) as life:
            await life.up()
            await platform.says("count to 3")
            await life.until(lambda status: status.active_turns == 1)
            began = time.monotonic()
            done = await hermes("stop", environ=environment(home))
            assert (done.returncode, done.stdout) == (0, "Stopped.\n")
            assert time.monotonic() - began < 60, "the stop ended with the turn, not with the grace"
            assert await life.ended() == 0
        assert "1\n2\n3\nDone." in platform.chat("42").texts


async def test_timeout_force_kills_the_tree(home: Path) -> None:
    number = token()
    command = (
        f"trap '' TERM; sleep {number} & sh -c 'sleep {number} & wait' & while :; do sleep {number}; done"
    )
    async with open_loopback() as platform:
        configure(home, port=platform.port, grace=1)
        program = (sys.executable, "-c", STUBBORN, command)
        async with living(home, command=program) as life:
            await life.up()
            await platform.says("run it")
            await life.until(lambda status: status.active_turns == 1)
            await trio.to_thread.run_sync(soon, lambda: len(alive(number)) >= 3)
            done = await hermes("stop", environ=environment(home))
            assert (done.returncode, done.stdout) == (0, "Stopped.\n")
            assert alive(number) == [], "a command that ignores TERM is killed with its descendants"
            assert await life.ended() == 0


async def test_no_pid_stops_nothing(home: Path) -> None:
    done = await hermes("stop", environ=environment(home))
    assert (done.returncode, done.stdout) == (0, "No gateway is running.\n")
    assert not (home / PLANNED_STOP).exists()


@pytest.mark.parametrize("record", ['{"pid": -1, "start_time": 1}', '{"pid": "all"}', "1", "", "\0\0\0"])
async def test_invalid_pid_is_refused(home: Path, record: str) -> None:
    """A pid file with a number of no process, or of all processes, is refused."""
    (home / LOCK_FILE).write_text(record)
    done = await hermes("stop", environ=environment(home))
    assert (done.returncode, done.stdout) == (0, "No gateway is running.\n")
    assert done.stderr == ""


async def test_fast_exit_is_seen(home: Path) -> None:
    """A gateway that has ended before the first look is proof, and no timeout is waited for."""
    configure(home, grace=600)
    async with living(home) as life:
        await life.up()
        began = time.monotonic()
        done = await hermes("stop", environ=environment(home))
        assert (done.returncode, done.stdout) == (0, "Stopped.\n")
        assert time.monotonic() - began < 60
        assert await life.ended() == 0


async def test_failure_at_the_timeout_is_reported(home: Path) -> None:
    async with living(home) as life:
        await life.up()
        life.signal(signal.SIGSTOP)  # a stopped process handles no signal
        done = await hermes("stop", environ=environment(home))
        assert done.returncode == 1
        assert "has not stopped in its time" in done.stderr
        assert "logs/gateway.log" in done.stderr, "the report has a remedy"
        assert done.stdout == ""


async def test_unwritable_marker_still_stops(home: Path) -> None:
    async with living(home) as life:
        await life.up()
        (home / PLANNED_STOP).mkdir()
        (home / PLANNED_STOP / "something").touch()
        done = await hermes("stop", environ=environment(home))
        assert (done.returncode, done.stdout) == (0, "Stopped.\n")
        assert await life.ended() == 0, "the stop is a planned one, so no supervisor starts the gateway again"
    status = read_status(home)
    assert status is not None
    assert status.gateway_state is GatewayState.STOPPED
