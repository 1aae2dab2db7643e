"""The status board: the content of `gateway_state.json` and, to the millisecond, the time of each write."""

from __future__ import annotations

import errno
import math
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import outcome
import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from hermes_trio.base.world import World
from hermes_trio.host.home.home_lock import LOCK_FILE, locked_home
from hermes_trio.host.home.state_file import (
    STATUS_FILE,
    GatewayState,
    PlatformState,
    PlatformStatus,
    Status,
    read_status,
)
from hermes_trio.host.home.status_board import StatusBoard, keep_status
from hermes_trio.host.loop.worker import worker_thread
from hermes_trio.host.processes.process_identity import ProcessId
from tests.conftest import Calendar
from tests.logs import capture_logs

ME = ProcessId(812, 4711.0, "boot-2")


Job = tuple[Callable[[], Any], Callable[[outcome.Outcome[Any]], object]]
STARTING, RUNNING, DEGRADED, DRAINING, STOPPED, STARTUP_FAILED = GatewayState
CONNECTING, CONNECTED, RETRYING, FATAL, DISABLED = PlatformState


class Disk:
    """Takes `seconds` for each write, one at a time, and keeps each written status with its time."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._give, self._take = trio.open_memory_channel[Job](math.inf)
        self.seconds = 0.0
        self.full = False
        self.writes: list[tuple[float, Status]] = []

    def __call__(self, job: Callable[[], Any], done: Callable[[outcome.Outcome[Any]], object]) -> None:
        self._give.send_nowait((job, done))

    async def work(self) -> None:
        async for job, done in self._take:
            began = trio.current_time()
            await trio.sleep(self.seconds)
            if self.full:
                done(outcome.Error(OSError(errno.ENOSPC, "no space left")))
                continue
            done(outcome.capture(job))
            status = read_status(self._home)
            assert status is not None
            self.writes.append((began, status))

    @property
    def times(self) -> list[float]:
        return [round(at, 6) for at, _ in self.writes]

    @property
    def last(self) -> Status:
        return self.writes[-1][1]


class Gateway:
    """A board whose file is kept on a test disk."""

    def __init__(self, home: Path, world: World) -> None:
        self.home = home
        self.board = StatusBoard(ME, "life-1", world)
        self.disk = Disk(home)

    @asynccontextmanager
    async def kept(self) -> AsyncIterator[None]:
        """Keep the file during the block, which begins at time 0 with the first write done."""
        async with trio.open_nursery() as disk:
            disk.start_soon(self.disk.work)
            with locked_home(self.home) as lock:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(keep_status, self.board, self.home, self.disk, lock)
                    await self.board.written()
                    yield
                    nursery.cancel_scope.cancel()
            disk.cancel_scope.cancel()


@pytest.fixture
async def gateway(tmp_path: Path, world: World, autojump_clock: MockClock) -> Gateway:
    return Gateway(tmp_path, world)


async def until(moment: float) -> None:
    """Wait for a time of Trio's clock, and until all tasks that are due then have run."""
    await trio.sleep_until(moment)
    await wait_all_tasks_blocked()


async def test_the_first_write_is_at_once_and_names_the_process(
    gateway: Gateway, autojump_clock: MockClock
) -> None:
    gateway.board.set_platform("telegram", CONNECTING)
    async with gateway.kept():
        assert gateway.disk.times == [0]
        status = gateway.disk.last
    assert status.gateway_state is STARTING
    assert (status.pid, status.start_time, status.instance) == (812, 4711.0, "life-1")
    assert status.process == ME
    assert status.updated_at == gateway.board.status.updated_at
    assert status.platforms == {"telegram": PlatformStatus(CONNECTING)}


async def test_two_turns_that_end_during_a_drain_are_one_write_each(
    gateway: Gateway, autojump_clock: MockClock
) -> None:
    async with gateway.kept():
        gateway.board.set(state=RUNNING, active_turns=2)
        await until(10)
        gateway.disk.writes.clear()
        gateway.board.set(state=DRAINING, after="stopped", grace=30.0, deadline=1.0)
        await until(10.12)
        gateway.board.set(active_turns=1)
        await until(10.24)
        gateway.board.set(active_turns=0)
        await until(10.25)
        gateway.board.set(state=STOPPED)
    assert gateway.disk.times == [10, 10.12, 10.24, 10.25]
    assert [(status.gateway_state, status.active_turns) for _, status in gateway.disk.writes] == [
        (DRAINING, 2), (DRAINING, 1), (DRAINING, 0), (STOPPED, 0)
    ]  # fmt: skip


async def test_the_last_turn_and_the_end_at_the_same_moment_are_one_write(
    gateway: Gateway, autojump_clock: MockClock
) -> None:
    async with gateway.kept():
        gateway.board.set(state=DRAINING, active_turns=2)
        await until(0.12)
        gateway.board.set(active_turns=1)
        await until(0.24)
        gateway.board.set(active_turns=0)
        gateway.board.set(state=STOPPED)
    assert gateway.disk.times == [0, 0, 0.12, 0.24]


async def test_changes_within_a_tenth_of_a_second_are_one_write(
    gateway: Gateway, autojump_clock: MockClock
) -> None:
    async with gateway.kept():
        for turns in range(1, 251):  # one in each millisecond
            await until(turns / 1000)
            gateway.board.set(active_turns=turns)
        await until(1)
    assert gateway.disk.times == [0, 0.1, 0.2, 0.3]
    assert [status.active_turns for _, status in gateway.disk.writes] == [0, 99, 199, 250]


async def test_a_change_after_a_while_is_written_at_once(gateway: Gateway, autojump_clock: MockClock) -> None:
    async with gateway.kept():
        await until(5)
        gateway.board.set(active_turns=1)
        await until(5.1)
        gateway.board.set(active_turns=2)
        await until(6)
    assert gateway.disk.times == [0, 5, 5.1]


async def test_a_new_state_is_written_at_once_with_the_waiting_changes(
    gateway: Gateway, autojump_clock: MockClock
) -> None:
    async with gateway.kept():
        await until(5)
        gateway.board.set(active_turns=1)
        await until(5.01)
        gateway.board.set(active_turns=2)
        await until(5.02)
        gateway.board.set(state=DRAINING, after="running")
        await until(5.03)
        gateway.board.set(active_turns=1)
        await until(6)
    assert gateway.disk.times == [0, 5, 5.02, 5.12]
    assert gateway.disk.writes[2][1].active_turns == 2


async def test_facts_that_do_not_change_are_not_written(gateway: Gateway, autojump_clock: MockClock) -> None:
    async with gateway.kept():
        gateway.board.set_platform("telegram", CONNECTED)
        await until(1)
        for _ in range(3):
            gateway.board.set(state=STARTING, active_turns=0)
            gateway.board.set(active_turns=0)
            gateway.board.set_platform("telegram", CONNECTED)
            await until(trio.current_time() + 1000)
    assert gateway.disk.times == [0, 0.1]


async def test_written_waits_for_the_facts_of_its_call(gateway: Gateway, autojump_clock: MockClock) -> None:
    async with gateway.kept():
        gateway.disk.seconds = 2
        gateway.board.set(active_turns=1)
        await until(1)
        gateway.board.set(state=DRAINING, after="stopped")
        await gateway.board.written()
        assert trio.current_time() == pytest.approx(4.1)
        assert gateway.disk.last.gateway_state is DRAINING
        await gateway.board.written()  # returns at once
        assert trio.current_time() == pytest.approx(4.1)


async def test_a_slow_disk_gets_one_write_at_a_time_and_the_newest(
    gateway: Gateway, autojump_clock: MockClock
) -> None:
    async with gateway.kept():
        gateway.disk.seconds = 3
        for turns in range(1, 6):
            gateway.board.set(active_turns=turns)
            await until(turns)
        await until(20)
    assert gateway.disk.times == [0, 0.1, 3.1, 6.1]
    assert [status.active_turns for _, status in gateway.disk.writes] == [0, 1, 4, 5]


async def test_facts_set_before_the_end_are_still_written(
    gateway: Gateway, autojump_clock: MockClock
) -> None:
    async with gateway.kept():
        gateway.board.set(active_turns=1)
        await until(0.05)
        gateway.board.set(exit_reason="a signal")
    assert gateway.disk.times == [0, 0.05]
    assert gateway.disk.last.exit_reason == "a signal"


async def test_written_facts_are_not_written_again_at_the_end(
    gateway: Gateway, autojump_clock: MockClock
) -> None:
    async with gateway.kept():
        await until(1)
    assert gateway.disk.times == [0]


async def test_a_hung_disk_delays_the_end_by_half_a_second(
    gateway: Gateway, autojump_clock: MockClock
) -> None:
    with capture_logs() as logs:
        async with gateway.kept():
            await until(1)
            gateway.disk.seconds = 1e6
            gateway.board.set(state=DRAINING, after="stopped")
            with trio.move_on_after(0.2) as patience:
                await gateway.board.written()
            assert patience.cancelled_caught
            assert trio.current_time() == pytest.approx(1.2)
            began = trio.current_time()
        assert trio.current_time() == pytest.approx(began + 0.5)
    assert [entry["event"] for entry in logs] == ["disk busy; state file may be out of date"]
    status = read_status(gateway.home)
    assert status is not None
    assert status.gateway_state is STARTING


async def test_a_full_disk_is_reported_once_and_retried_with_each_change(
    gateway: Gateway, autojump_clock: MockClock
) -> None:
    with capture_logs() as logs:
        async with gateway.kept():
            gateway.disk.full = True
            for turns in (1, 2, 3):
                await until(turns)
                gateway.board.set(active_turns=turns)
                await gateway.board.written()  # does not wait until the disk has space
                assert trio.current_time() == turns
            gateway.disk.full = False
            await until(4)
            gateway.board.set(active_turns=4)
            await until(5)
            gateway.disk.full = True
            gateway.board.set(active_turns=5)
            await until(6)
            gateway.disk.full = False
    assert [status.active_turns for _, status in gateway.disk.writes] == [0, 4, 5]
    assert [entry["event"] for entry in logs] == ["state file not written"] * 2


async def test_degraded_lasts_as_long_as_its_cause(gateway: Gateway, autojump_clock: MockClock) -> None:
    board = gateway.board
    async with gateway.kept():
        board.set_platform("telegram", CONNECTING)
        board.set_platform("matrix", DISABLED)
        await until(1)
        board.set(state=RUNNING)
        await until(2)
        board.set_platform("telegram", CONNECTED)
        await until(3)
        board.set_platform("telegram", RETRYING, "connection refused")
        await until(4)
        board.set(state=RUNNING)  # by a task that does not know the platforms
        board.set(state=DRAINING, after="running")
        await until(5)
        board.set(state=RUNNING)
        await until(6)
        board.set_platform("telegram", CONNECTED)
    assert [status.gateway_state for _, status in gateway.disk.writes] == [
        STARTING, STARTING, DEGRADED, RUNNING, DEGRADED, DRAINING, DEGRADED, RUNNING
    ]  # fmt: skip
    assert gateway.disk.writes[4][1].platforms["telegram"].error == "connection refused"
    assert gateway.disk.last.platforms["telegram"].error is None


async def test_only_a_drain_shows_the_state_after_it_and_its_deadline(
    gateway: Gateway, calendar: Calendar, autojump_clock: MockClock
) -> None:
    board = gateway.board
    async with gateway.kept():
        board.set(
            state=DRAINING, after="running", restart_requested=True, grace=30.0, deadline=calendar.time + 35
        )
        await board.written()
        draining = read_status(gateway.home)
        assert draining is not None
        assert (draining.after, draining.grace, draining.deadline) == ("running", 30.0, calendar.time + 35)
        assert draining.restart_requested
        board.set(state=STOPPED, exit_reason="a signal")
        await board.written()
        over = read_status(gateway.home)
    assert over is not None
    assert (over.after, over.grace, over.deadline) == (None, None, None)
    assert (over.restart_requested, over.exit_reason) == (True, "a signal")


async def test_the_board_writes_on_a_real_thread(tmp_path: Path, world: World) -> None:
    board = StatusBoard(ME, "life-1", world)
    with locked_home(tmp_path) as lock, worker_thread("status") as runner:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(keep_status, board, tmp_path, runner, lock)
            for turns in range(20):
                board.set(active_turns=turns, state=(RUNNING, DRAINING)[turns % 2])
                with trio.fail_after(5):
                    await board.written()
                status = read_status(tmp_path)
                assert status is not None
                assert status.active_turns == turns
            nursery.cancel_scope.cancel()
    assert sorted(os.listdir(tmp_path)) == sorted([LOCK_FILE, STATUS_FILE])
    if os.name == "posix":
        assert (tmp_path / STATUS_FILE).stat().st_mode & 0o777 == 0o600
