"""`hermes-trio restart`: it waits until the next life is there, and says so when it is not."""

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
from tests.machine import HERMES, Life, configure, environment, hermes, living

pytestmark = [
    pytest.mark.timeout(180),
    pytest.mark.skipif(os.name != "posix", reason="the tests send signals"),
]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    configure(tmp_path / "home")
    return tmp_path / "home"


async def test_restarted_means_that_another_life_has_its_doors_open(home: Path) -> None:
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


async def test_where_nobody_would_start_it_again_it_goes_on_in_the_same_process(home: Path) -> None:
    """Also in a container, unless it is what the container runs: no shell there waits for an exit code."""
    async with living(home) as life:
        life.forsaken = True
        before = await life.up()
        assert (await hermes("restart", environ=environment(home))).returncode == 0
        after = await life.up()
        assert (after.pid, life.codes) == (before.pid, [])
        assert after.instance != before.instance


async def test_people_are_told_of_a_restart_and_the_turn_goes_on_within_the_grace(home: Path) -> None:
    async with open_loopback() as platform:
        configure(home, port=platform.port, grace=60)
        async with living(home) as life:
            await life.up()
            await platform.says("count to 4")
            await life.until(lambda status: status.active_turns == 1)
            assert (await hermes("restart", environ=environment(home))).returncode == 0
            assert any("restarting" in text for text in platform.chat("42").texts)
            assert any("4" in text for text in platform.chat("42").texts)


async def test_where_none_runs_it_says_how_to_start_one(home: Path) -> None:
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


@pytest.mark.soak  # it waits as long as supervisors may pause
async def test_one_that_nobody_starts_again_is_not_said_to_be_back(home: Path) -> None:
    """The supervisor has promised to start it again, and does not."""
    environ = environment(home, HERMES_GATEWAY_EXTERNAL_SUPERVISOR="1")
    async with living(home, environ=environ) as life:
        before = await life.up()
        life.forsaken = True
        done = await hermes("restart", environ=environment(home))
        assert await life.ended() == 75
    assert done.returncode == 1
    assert "it has ended, and has not come back" in done.stderr
    assert (await life.until(lambda _: True)).instance == before.instance


async def test_below_the_gateway_it_does_not_wait(home: Path) -> None:
    """As when the agent calls it: the turn that waits for it would have to be cut."""
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
        "0 The gateway restarts. This command runs below it, and does not wait for that.",
    ]


async def announced(home: Path, life: Life) -> None:
    """What systemd does when it restarts us: the marker, and then the signal. The gateway has seen the
    marker by then."""
    pid = (await life.until(lambda status: status.active_turns == 1)).pid
    write_planned_stop_marker(home, pid, World(), kind="restart", asked_by="systemd")
    await life.until(lambda status: status.restart_requested)
    life.signal(signal.SIGTERM)


async def test_the_signal_that_follows_its_marker_makes_no_stop_of_a_restart(home: Path) -> None:
    async with open_loopback() as platform:
        configure(home, port=platform.port, grace=2)
        supervised = environment(home, HERMES_GATEWAY_EXTERNAL_SUPERVISOR="1")
        async with living(home, environ=supervised) as life:
            await life.up()
            await platform.says("count to 5000")
            life.forsaken = True
            await announced(home, life)
            assert await life.ended() == 75
    assert not (home / PLANNED_STOP).exists(), "it would end the next life, which may have the same pid"


async def test_a_stop_that_comes_after_such_a_signal_makes_a_stop_of_it(home: Path) -> None:
    async with open_loopback() as platform:
        configure(home, port=platform.port, grace=600)
        supervised = environment(home, HERMES_GATEWAY_EXTERNAL_SUPERVISOR="1")
        async with living(home, environ=supervised) as life:
            await life.up()
            await platform.says("count to 5000")
            await announced(home, life)
            await life.until(lambda _: not (home / PLANNED_STOP).exists())
            assert (await hermes("stop", environ=environment(home))).returncode == 0
            assert await life.ended() == 0
    assert not (home / PLANNED_STOP).exists()
