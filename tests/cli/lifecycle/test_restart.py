"""`hermes-trio restart` waits until the next life is ready, and reports a failure."""

from __future__ import annotations

import os
import shlex
import signal
import socket
import sys
from pathlib import Path

import pytest
import trio

from hermes_trio.base.world import World
from hermes_trio.host.home.markers import PLANNED_STOP, write_planned_stop_marker
from hermes_trio.testing import open_loopback
from tests.live import Visits
from tests.machine import HERMES, Life, configure, environment, hermes, living

pytestmark = [
    pytest.mark.timeout(180),
    pytest.mark.skipif(os.name != "posix", reason="the tests send signals"),
]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    configure(tmp_path / "home")
    return tmp_path / "home"


async def test_restart_returns_when_the_next_life_is_ready(home: Path) -> None:
    async with living(home) as life:
        before = await life.up()
        done = await hermes("restart", environ=environment(home))
        after = await life.up()
        assert done.returncode == 0
        assert done.stdout.startswith("Restarted: ")
        assert done.stdout.endswith(f", pid {after.pid}.\n")
        assert after.instance != before.instance
        assert (await hermes("stop", environ=environment(home))).returncode == 0
        assert await life.ended() == 0


async def test_a_restart_without_a_supervisor_keeps_the_process(home: Path) -> None:
    """The same is true in a container, unless the gateway is its main process: no shell there waits for an
    exit code."""
    async with living(home) as life:
        life.is_abandoned = True
        before = await life.up()
        assert (await hermes("restart", environ=environment(home))).returncode == 0
        after = await life.up()
        assert (after.pid, life.codes) == (before.pid, [])
        assert after.instance != before.instance


async def test_a_client_that_connects_during_a_restart_is_answered(home: Path) -> None:
    """It waits for the next life in the queue of the listening socket, which goes on."""
    visits = Visits()
    async with living(home) as life, trio.open_nursery() as clients:
        life.is_abandoned = True
        before = await life.up()
        assert before.web is not None
        clients.start_soon(visits.go_on, before.web)
        assert (await hermes("restart", environ=environment(home))).returncode == 0
        after = await life.up()
        clients.cancel_scope.cancel()
    assert after.instance != before.instance
    assert (after.pid, after.web) == (before.pid, before.web)
    assert set(visits.answers) == {"HTTP/1.1 200 "}


async def test_a_restart_is_announced_and_the_turn_continues_within_the_grace(home: Path) -> None:
    async with open_loopback() as platform:
        configure(home, port=platform.port, grace=60)
        async with living(home) as life:
            await life.up()
            await platform.says("count to 4")
            await life.until(lambda status: status.active_turns == 1)
            assert (await hermes("restart", environ=environment(home))).returncode == 0
            assert any("restarting" in text for text in platform.chat("42").texts)
            assert any("4" in text for text in platform.chat("42").texts)


async def test_a_restart_without_a_gateway_is_an_error_with_a_remedy(home: Path) -> None:
    done = await hermes("restart", environ=environment(home))
    assert done.returncode == 1
    assert "no gateway is running" in done.stderr
    assert "`hermes-trio run`" in done.stderr


async def test_a_next_life_that_cannot_serve_is_reported(home: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        async with living(home) as life:
            await life.up()
            (home / "config.yaml").write_text(f"web: {{port: {taken.getsockname()[1]}}}\n")
            done = await hermes("restart", environ=environment(home))
            assert await life.ended() == 78
    assert done.returncode == 1
    assert "it came back and ended again (web: cannot listen on " in done.stderr


@pytest.mark.soak  # waits as long as a supervisor may pause
async def test_a_gateway_that_no_supervisor_starts_again_is_reported(home: Path) -> None:
    """The supervisor should start the gateway again, and does not."""
    environ = environment(home, HERMES_GATEWAY_EXTERNAL_SUPERVISOR="1")
    async with living(home, environ=environ) as life:
        before = await life.up()
        life.is_abandoned = True
        done = await hermes("restart", environ=environment(home))
        assert await life.ended() == 75
    assert done.returncode == 1
    assert "it has ended, and has not come back" in done.stderr
    assert (await life.until(lambda _: True)).instance == before.instance


async def test_restart_as_a_child_process_of_the_gateway_does_not_wait(home: Path) -> None:
    """As when the agent runs it: the restart would wait for the turn, and the turn for the command."""
    script = home.with_name("gateway.py")
    script.write_text(
        "import os, signal, subprocess, sys\n"
        "from pathlib import Path\n"
        "from hermes_trio.host.home.home_lock import locked_home\n"
        "signal.signal(signal.SIGUSR1, lambda *_: print('asked'))\n"
        "with locked_home(Path(os.environ['HERMES_HOME'])):\n"
        f"    command = ['sh', '-c', {shlex.join([*HERMES, 'restart'])!r}]\n"
        "    done = subprocess.run(command, capture_output=True)\n"
        "print(done.returncode, done.stdout.decode(), done.stderr.decode())\n"
    )
    with trio.fail_after(60):
        done = await trio.run_process(
            [sys.executable, "-u", str(script)], env=environment(home), capture_stdout=True
        )
    assert done.stdout.decode().splitlines()[:2] == [
        "asked",
        "0 The gateway restarts. This command is its child process, and does not wait.",
    ]


async def restart_as_systemd(home: Path, life: Life) -> None:
    """Write the marker, wait until the gateway has seen it, and send the signal, as a restart by systemd
    does."""
    pid = (await life.until(lambda status: status.active_turns == 1)).pid
    write_planned_stop_marker(home, pid, World(), kind="restart", asked_by="systemd")
    await life.until(lambda status: status.restart_requested)
    life.signal(signal.SIGTERM)


async def test_a_signal_after_a_restart_marker_is_a_restart(home: Path) -> None:
    async with open_loopback() as platform:
        configure(home, port=platform.port, grace=2)
        supervised = environment(home, HERMES_GATEWAY_EXTERNAL_SUPERVISOR="1")
        async with living(home, environ=supervised) as life:
            await life.up()
            await platform.says("count to 5000")
            life.is_abandoned = True
            await restart_as_systemd(home, life)
            assert await life.ended() == 75
    assert not (home / PLANNED_STOP).exists(), "it could end the next life, which may have the same pid"


async def test_a_stop_command_during_a_restart_by_systemd_is_a_stop(home: Path) -> None:
    async with open_loopback() as platform:
        configure(home, port=platform.port, grace=600)
        supervised = environment(home, HERMES_GATEWAY_EXTERNAL_SUPERVISOR="1")
        async with living(home, environ=supervised) as life:
            await life.up()
            await platform.says("count to 5000")
            await restart_as_systemd(home, life)
            await life.until(lambda _: not (home / PLANNED_STOP).exists())
            assert (await hermes("stop", environ=environment(home))).returncode == 0
            assert await life.ended() == 0
    assert not (home / PLANNED_STOP).exists()
