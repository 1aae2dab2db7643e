"""Cases of the marker that announces a stop: read every half second, valid for one process only, and obeyed
once."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import trio
from trio.testing import MockClock

from hermes_trio.base.world import World
from hermes_trio.gateway.ending.control import Control
from hermes_trio.gateway.ending.endings_table import Cause, Ending
from hermes_trio.gateway.ending.triggers import run_planned_stop_watcher
from hermes_trio.host.files.private_files import make_private_dir
from hermes_trio.host.home.markers import PLANNED_STOP, write_planned_stop_marker
from hermes_trio.host.processes.process_identity import own

WORLD = World(now=lambda: datetime.now(UTC))


@asynccontextmanager
async def watching(home: Path, control: Control) -> AsyncIterator[trio.CancelScope]:
    """Run a watcher beside the block; if it still runs at the end, it is cancelled."""
    make_private_dir(home)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(run_planned_stop_watcher, control, home, own(), WORLD, 0.0)
        yield nursery.cancel_scope
        nursery.cancel_scope.cancel()


async def test_watcher_fires_shutdown_when_marker_appears(tmp_path: Path, autojump_clock: MockClock) -> None:
    control = Control()
    async with watching(tmp_path / "home", control):
        await trio.sleep(3)
        assert control.current is None
        write_planned_stop_marker(tmp_path / "home", os.getpid(), WORLD, asked_by="cli")
        ending = await control.ending()
        assert trio.current_time() <= 3.5
        assert (ending.cause, ending.asked_by) == (Cause.PLANNED, "cli")


async def test_watcher_does_not_fire_when_marker_absent(tmp_path: Path, autojump_clock: MockClock) -> None:
    control = Control()
    async with watching(tmp_path / "home", control):
        await trio.sleep(60)
        assert control.current is None


async def test_watcher_skips_when_runner_already_draining(tmp_path: Path, autojump_clock: MockClock) -> None:
    """A marker does not change an ending with the same meaning, and the watcher has nothing left to do."""
    control = Control()
    make_private_dir(tmp_path / "home")
    write_planned_stop_marker(tmp_path / "home", os.getpid(), WORLD, asked_by="cli")
    first = Ending(Cause.PLANNED, grace=30, asked_by="SIGINT")
    control.ask(first)
    async with watching(tmp_path / "home", control):
        await trio.sleep(5)
        assert control.current == first


async def test_watcher_skips_when_runner_not_started(tmp_path: Path, autojump_clock: MockClock) -> None:
    """The watcher lives in the scope of a serving gateway, so before that no watcher can fire."""
    control = Control()
    make_private_dir(tmp_path / "home")
    write_planned_stop_marker(tmp_path / "home", os.getpid(), WORLD)
    await trio.sleep(5)
    assert control.current is None
    assert (tmp_path / "home" / PLANNED_STOP).exists()


async def test_watcher_responds_to_stop_event_promptly(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with watching(tmp_path / "home", Control()) as scope:
        await trio.sleep(0.1)
        scope.cancel()
    assert trio.current_time() == 0.1


async def test_watcher_fires_only_once_when_marker_persists(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    control = Control()
    home = tmp_path / "home"
    make_private_dir(home)
    asked: list[Ending] = []
    original = control.ask
    write_planned_stop_marker(home, os.getpid(), WORLD)
    await run_planned_stop_watcher(control, home, own(), WORLD, 0.0)
    assert control.current is not None
    asked.append(control.current)
    write_planned_stop_marker(home, os.getpid(), WORLD, asked_by="again")
    with trio.fail_after(5):
        await run_planned_stop_watcher(control, home, own(), WORLD, 0.0)
    assert control.current is asked[0]
    assert original(asked[0]) is False


async def test_watcher_tolerates_marker_path_resolution_errors(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    """Whatever is in the place of the marker, the watcher continues, can be stopped, and fires later."""
    control, home = Control(), tmp_path / "home"
    async with watching(home, control):
        marker = home / PLANNED_STOP
        for nonsense in (b"", b"{", b"\xff\xfe", b"[]", json.dumps({"target_pid": "me"}).encode()):
            marker.write_bytes(nonsense)
            await trio.sleep(2)
            assert control.current is None
            marker.unlink(missing_ok=True)
        marker.mkdir()
        await trio.sleep(2)
        assert control.current is None
        if marker.is_dir():
            marker.rmdir()
        write_planned_stop_marker(home, os.getpid(), WORLD)
        await control.ending()
