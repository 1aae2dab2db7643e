"""`hermes-trio stop` waits until the process has ended, as long as the gateway itself allows."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import trio

from hermes_trio.host.home.home_lock import LOCK_FILE
from hermes_trio.host.home.markers import PLANNED_STOP
from hermes_trio.host.home.state_file import STATUS_FILE, GatewayState
from hermes_trio.testing import open_loopback
from tests.machine import HERMES, configure, environment, hermes, living

pytestmark = [
    pytest.mark.timeout(180),
    pytest.mark.skipif(os.name != "posix", reason="the tests send signals"),
]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    configure(tmp_path / "home")
    return tmp_path / "home"


async def test_a_stop_without_a_gateway_does_nothing(home: Path) -> None:
    done = await hermes("stop", environ=environment(home))
    assert (done.returncode, done.stdout) == (0, "No gateway is running.\n")


async def test_stop_returns_when_the_process_has_ended(home: Path) -> None:
    async with living(home) as life:
        await life.up()
        done = await hermes("stop", environ=environment(home))
        assert (done.returncode, done.stdout) == (0, "Stopped.\n")
        assert await life.ended() == 0
    assert (await life.until(lambda _: True)).gateway_state is GatewayState.STOPPED
    assert not (home / PLANNED_STOP).exists()


async def test_a_gateway_whose_lock_file_was_removed_is_found_and_is_the_only_one(home: Path) -> None:
    """Another program that uses a file of this name may remove it as stale."""
    async with living(home) as life:
        await life.up()
        (home / LOCK_FILE).unlink()
        second = await hermes("run", environ=environment(home))
        assert second.returncode == 1
        assert f"the gateway with pid {life.process.pid} works in this home" in second.stderr
        seen = await hermes("status", environ=environment(home))
        assert f"pid {life.process.pid}" in seen.stdout
        done = await hermes("stop", environ=environment(home))
        assert (done.returncode, done.stdout) == (0, "Stopped.\n")
        assert await life.ended() == 0


async def test_a_gateway_restores_its_lock_file_with_its_next_turn(home: Path) -> None:
    async with open_loopback() as platform:
        configure(home, port=platform.port)
        async with living(home) as life:
            await life.up()
            (home / LOCK_FILE).unlink()
            (home / STATUS_FILE).unlink()
            await platform.says("hello")
            await life.until(lambda _: (home / LOCK_FILE).exists())
            assert json.loads((home / LOCK_FILE).read_bytes())["pid"] == life.process.pid
            done = await hermes("stop", environ=environment(home))
            assert (done.returncode, done.stdout) == (0, "Stopped.\n")
            assert await life.ended() == 0


async def test_stop_waits_for_the_grace_of_the_running_gateway(home: Path) -> None:
    """The configuration was changed since: the grace at the start of the gateway counts."""
    async with open_loopback() as platform:
        configure(home, port=platform.port, grace=8)
        async with living(home) as life:
            assert (await life.up()).grace == 8
            await platform.says("count to 5000")
            await life.until(lambda status: status.active_turns == 1)
            configure(home, port=platform.port, grace=0)
            began = time.monotonic()
            done = await hermes("stop", environ=environment(home))
            assert (done.returncode, done.stdout) == (0, "Stopped.\n")
            assert time.monotonic() - began >= 8
            assert await life.ended() == 0


async def test_a_second_stop_ends_the_grace(home: Path) -> None:
    async with open_loopback() as platform:
        configure(home, port=platform.port, grace=600)
        async with living(home) as life:
            await life.up()
            await platform.says("count to 5000")
            await life.until(lambda status: status.active_turns == 1)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(lambda: hermes("stop", environ=environment(home)))
                await life.until(lambda status: status.deadline is not None)
                again = await hermes("stop", environ=environment(home))
            assert again.stdout.splitlines() == [
                "The gateway is already stopping; its grace is ended.",
                "Stopped.",
            ]
            assert await life.ended() == 0


async def test_a_stop_during_a_restart_is_a_stop(home: Path) -> None:
    async with open_loopback() as platform:
        configure(home, port=platform.port, grace=600)
        async with living(home) as life:
            await life.up()
            await platform.says("count to 5000")
            await life.until(lambda status: status.active_turns == 1)
            async with trio.open_nursery() as nursery:
                restarts = []

                async def restart() -> None:
                    restarts.append(await hermes("restart", environ=environment(home)))

                nursery.start_soon(restart)
                await life.until(lambda status: status.restart_requested)
                nursery.start_soon(lambda: hermes("stop", environ=environment(home)))
                await life.until(lambda status: not status.restart_requested)
                await hermes("stop", environ=environment(home))  # ends the grace
            assert await life.ended() == 0
    assert restarts[0].returncode == 1
    assert "another person requested that meanwhile" in restarts[0].stderr


async def test_stop_as_a_child_process_of_the_gateway_does_not_wait(home: Path) -> None:
    """A gateway whose child process waits for its end, and which waits for that child, could never end."""
    script = home.with_name("gateway.py")
    script.write_text(
        "import os, subprocess, sys, time\n"
        "from pathlib import Path\n"
        "from hermes_trio.host.home.home_lock import locked_home\n"
        "import signal; signal.signal(signal.SIGTERM, lambda *_: None)\n"
        "with locked_home(Path(os.environ['HERMES_HOME'])):\n"
        f"    done = subprocess.run(['sh', '-c', {shlex.join([*HERMES, 'stop'])!r}], capture_output=True)\n"
        "print(done.returncode, done.stdout.decode(), done.stderr.decode())\n"
    )
    with trio.fail_after(60):
        done = await trio.run_process(
            [sys.executable, str(script)], env=environment(home), capture_stdout=True
        )
    assert done.stdout.decode().startswith(
        "0 The gateway stops. This command is its child process, and does not wait."
    )


async def test_a_gateway_that_does_not_stop_in_time_is_reported(home: Path) -> None:
    async with living(home) as life:
        await life.up()
        life.signal(signal.SIGSTOP)  # it cannot react
        done = await hermes("stop", environ=environment(home))
        assert done.returncode == 1
        assert f"(pid {life.process.pid}) has not stopped in its time" in done.stderr


async def test_a_killed_gateway_does_not_count_as_running(home: Path) -> None:
    async with living(home) as life:
        await life.up()
        life.process.kill()
        await life.ended()
        done = await hermes("stop", environ=environment(home))
    assert (done.returncode, done.stdout) == (0, "No gateway is running.\n")


async def test_a_gateway_without_a_state_file_has_the_grace_of_the_configuration(home: Path) -> None:
    configure(home, grace=5)
    async with living(home) as life:
        await life.up()
        (home / STATUS_FILE).unlink()
        assert (await hermes("stop", environ=environment(home))).returncode == 0
        assert await life.ended() == 0


def test_stop_and_status_import_no_trio_without_a_gateway(home: Path) -> None:
    for command in ("stop", "status"):
        code = (
            f"import json, sys; from hermes_trio.cli import main\ntry: main(['{command}'])\n"
            "except SystemExit: pass\nprint(json.dumps(sorted(sys.modules)))"
        )
        done = subprocess.run(
            [sys.executable, "-c", code], env=environment(home), capture_output=True, text=True, check=True
        )
        loaded = set(json.loads(done.stdout.splitlines()[-1]))
        assert loaded & {"trio", "psutil", "sqlite3", "structlog"} == set()
