"""`hermes-trio stop`: it waits for proof, as long as the gateway says, and no shorter."""

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


async def test_where_none_runs_there_is_nothing_to_stop(home: Path) -> None:
    done = await hermes("stop", environ=environment(home))
    assert (done.returncode, done.stdout) == (0, "No gateway is running.\n")


async def test_stopped_means_gone(home: Path) -> None:
    async with living(home) as life:
        await life.up()
        done = await hermes("stop", environ=environment(home))
        assert (done.returncode, done.stdout) == (0, "Stopped.\n")
        assert await life.ended() == 0
    assert (await life.until(lambda _: True)).gateway_state is GatewayState.STOPPED
    assert not (home / PLANNED_STOP).exists()


async def test_a_gateway_whose_lock_file_was_removed_is_found_and_is_the_only_one(home: Path) -> None:
    """Another program that has a file of this name may remove it as stale."""
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


async def test_it_waits_for_the_grace_that_the_running_gateway_has(home: Path) -> None:
    """The configuration has changed since: what counts is what the gateway started with."""
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


async def test_asked_again_it_hurries(home: Path) -> None:
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
            assert again.stdout.splitlines() == ["It is stopping already; asked it to hurry.", "Stopped."]
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
                await hermes("stop", environ=environment(home))  # and it hurries
            assert await life.ended() == 0
    assert restarts[0].returncode == 1
    assert "somebody asked for that meanwhile" in restarts[0].stderr


async def test_below_the_gateway_it_does_not_wait(home: Path) -> None:
    """A gateway that is its own stopper's parent could never end while it waits for it."""
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
        "0 The gateway stops. This command runs below it, and does not wait for that."
    )


async def test_one_that_does_not_stop_is_reported_and_not_believed(home: Path) -> None:
    async with living(home) as life:
        await life.up()
        life.signal(signal.SIGSTOP)  # it will hear of nothing
        done = await hermes("stop", environ=environment(home))
        assert done.returncode == 1
        assert f"(pid {life.process.pid}) has not stopped in its time" in done.stderr


async def test_one_that_was_killed_is_not_there(home: Path) -> None:
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


def test_a_quick_look_loads_no_trio(home: Path) -> None:
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
