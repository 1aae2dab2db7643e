"""The output of `hermes-trio status` about a gateway that does not run: the end of its last life."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest
import trio
from click.testing import CliRunner

from hermes_trio import __version__
from hermes_trio.cli import main
from hermes_trio.config.schema import AgentConfig
from hermes_trio.gateway.ending.endings_table import Cause, Ending
from hermes_trio.gateway.facade import RunningGateway
from hermes_trio.host.home.home_lock import locked_home
from hermes_trio.host.home.state_file import STATUS_FILE, GatewayState, Status, read_status
from hermes_trio.testing import Script
from tests.stage import Stage, everyone


def status(home: Path, *options: str) -> str:
    result = CliRunner().invoke(main, ["status", *options], env={"HERMES_HOME": str(home)})
    assert result.exit_code == 0
    return result.stdout


def write_dead_status(home: Path, **changed: object) -> None:
    """Make the state file that of a process that no longer exists."""
    left = read_status(home)
    assert left is not None
    path = home / STATUS_FILE
    path.write_bytes(msgspec.json.encode(msgspec.structs.replace(left, pid=2**30, **changed)))


def test_the_status_of_an_empty_home(tmp_path: Path) -> None:
    assert status(tmp_path) == "No gateway is running, and none has run in this home.\n"
    assert json.loads(status(tmp_path, "--json")) == {"running": False}


async def test_the_status_of_a_running_gateway_is_a_small_table(stage: Stage) -> None:
    stage.config = everyone(busy="queue")
    stage.agent.on("work", Script().takes(50).says("Done."))
    async with stage.life() as gateway:
        gateway.home.board.set(web="http://127.0.0.1:8642", version="0.0.1")
        await stage.says("work")
        await stage.says("and then?")
        with trio.fail_after(10):
            await gateway.home.board.written()
        rows = dict(line.split(maxsplit=1) for line in status(stage.home).splitlines())
    assert list(rows) == ["state", "address", "model", "up", "version", "home", "waiting", "memory"]
    assert rows["state"] == f"running, pid {os.getpid()}, 1 running turn"
    assert rows["address"] == "http://127.0.0.1:8642"
    assert rows["up"].endswith(f", since {stage.world.now().astimezone():%Y-%m-%d} {_local(stage)}")
    assert rows["version"] == f"0.0.1; a restart begins version {__version__}"
    assert rows["home"] == str(stage.home)
    assert rows["waiting"] == "1 message"
    assert rows["memory"] == "connected"


def _local(stage: Stage) -> str:
    return f"{datetime(2026, 5, 20, 12, 0, tzinfo=UTC).astimezone():%H:%M:%S}"


async def test_the_status_of_a_running_gateway_without_a_state_file(stage: Stage) -> None:
    """On a full disk, say: what lies there is of the life before, or nothing."""
    async with stage.life():
        pass
    with locked_home(stage.home) as lock:
        write_dead_status(stage.home)
        for _ in range(2):
            said = status(stage.home)
            holder = f"pid {lock.process.pid}"
            expected = f"A gateway works in this home ({holder}), but its state is not in {STATUS_FILE}.\n"
            assert said == expected
            assert json.loads(status(stage.home, "--json")) == {"running": True}
            (stage.home / STATUS_FILE).unlink(missing_ok=True)


@pytest.mark.parametrize(
    ("cause", "words"),
    [
        (Cause.PLANNED, "It was stopped at 2026-05-20 "),
        (Cause.SIGNAL, "It was ended by a signal without an announcement at 2026-05-20 "),
        (Cause.RESTART, "It ended for a restart at 2026-05-20 "),
        (Cause.NOTHING_SERVES, "It ended because every platform refused it at 2026-05-20 "),
    ],
)
async def test_the_cause_requester_and_duration_of_an_ending_are_printed(
    stage: Stage, cause: Cause, words: str
) -> None:
    stage.agent.on("work", Script().takes(3).says("Done."))
    async with stage.life() as gateway:
        await stage.says("work")
        gateway.control.ask(Ending(cause, grace=10, asked_by="kim"))
    write_dead_status(stage.home)
    said = status(stage.home)
    assert said.startswith(f"No gateway is running. {words}")
    assert said.endswith(", asked for by kim; that took 3.0 s.\n")


async def test_a_kill_while_running_is_reported(stage: Stage) -> None:
    async with stage.life() as gateway:
        gateway.stop(asked_by="kim")
    write_dead_status(stage.home, gateway_state=GatewayState.RUNNING, exit_reason=None)
    assert "It was killed or crashed while it ran, some time after 2026-05-20 " in status(stage.home)
    assert "kim" not in status(stage.home), "that was the life before"
    write_dead_status(stage.home, gateway_state=GatewayState.STARTING)
    assert "crashed while it started" in status(stage.home)


async def until_draining(gateway: RunningGateway) -> None:
    """Wait on the virtual clock: no event of the platform tells the state."""
    while gateway.home.board.status.gateway_state is not GatewayState.DRAINING:  # noqa: ASYNC110
        await trio.sleep(0.1)


async def test_a_kill_during_a_drain_is_reported(stage: Stage) -> None:
    async with stage.life() as gateway:
        gateway.stop(asked_by="kim")
    async with stage.life() as gateway:
        gateway.control.hold(True)
        await until_draining(gateway)
        held = gateway.home.board.status
        (stage.home / STATUS_FILE).write_bytes(msgspec.json.encode(held))
        assert "\ndrained: no turn begins until `hermes-trio drain cancel`\n" in status(stage.home)
    (stage.home / STATUS_FILE).write_bytes(msgspec.json.encode(held))
    write_dead_status(stage.home)
    assert "It was killed or crashed while it was drained, some time after 2026-05-20 " in status(stage.home)
    assert "kim" not in status(stage.home), "that was the life before"


async def test_the_row_of_another_ending_is_not_printed(stage: Stage) -> None:
    """A hanging disk may have prevented the row, but not the state file."""
    async with stage.life() as gateway:
        gateway.stop(asked_by="kim")
    write_dead_status(stage.home, exit_reason="signal")
    assert "without an announcement" in status(stage.home)
    assert "kim" not in status(stage.home)


async def test_a_kill_during_a_shutdown_is_reported(stage: Stage) -> None:
    stage.config = everyone(AgentConfig(restart_drain_timeout=60))
    left: list[Status | None] = []
    stage.agent.on("work", Script().takes(50).says("Done."))
    async with stage.life() as gateway:
        await stage.says("work")
        gateway.stop(asked_by="kim")
        await until_draining(gateway)
        left.append(gateway.home.board.status)
    assert left[0] is not None
    (stage.home / STATUS_FILE).write_bytes(msgspec.json.encode(left[0]))
    write_dead_status(stage.home)
    assert "It was killed while it was ending, after 2026-05-20 " in status(stage.home)
    assert "asked for by kim" in status(stage.home)


@pytest.mark.parametrize(
    "broken", [lambda path: path.unlink(), lambda path: path.write_bytes(b"no database")]
)
async def test_the_state_file_is_enough_without_the_database(
    stage: Stage, broken: Callable[[Path], object]
) -> None:
    async with stage.life() as gateway:
        gateway.stop(asked_by="kim")
    write_dead_status(stage.home)
    broken(stage.home / "gateway.db")
    assert "It was stopped at 2026-05-20 " in status(stage.home)
    assert not status(stage.home).count("kim")


async def test_the_status_as_json_is_the_state_file(stage: Stage) -> None:
    async with stage.life():
        pass
    write_dead_status(stage.home)
    report = json.loads(status(stage.home, "--json"))
    file = json.loads((stage.home / STATUS_FILE).read_bytes())
    assert report == {"running": False, **file}
