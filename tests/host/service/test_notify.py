"""The notifications to a service manager, and their silence when the loop hangs."""

from __future__ import annotations

import os
import signal
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest
import trio

from hermes_trio.host.home.state_file import GatewayState, PlatformState, PlatformStatus, Status
from hermes_trio.host.service.sd_notify import changed_lines, watchdog_period
from hermes_trio.host.service.service_files import LEAST_STOP_TIMEOUT, ROOM_TO_STOP
from hermes_trio.testing import open_loopback
from tests.machine import PATIENCE, configure, environment, hermes, living

STARTING, RUNNING, DEGRADED, DRAINING, STOPPED, _ = GatewayState
STORED = ("FDSTOREREMOVE", "FDNAME", "FDSTORE", "FDNAME")
AT = datetime(2026, 5, 20, 12, 0, tzinfo=UTC)
pytestmark = pytest.mark.skipif(not hasattr(socket, "AF_UNIX"), reason="this system has no such sockets")


def status(state: GatewayState, *, turns: int = 0, deadline: float | None = None, **links: str) -> Status:
    platforms = {name: PlatformStatus(PlatformState.RETRYING, error) for name, error in links.items()}
    return Status(
        gateway_state=state,
        pid=1,
        start_time=1.0,
        instance="life-1",
        updated_at=AT,
        active_turns=turns,
        deadline=deadline,
        platforms=platforms,
    )


@pytest.mark.parametrize(
    ("before", "now", "told"),
    [
        (None, status(STARTING), ["STATUS=starting, 0 running turns"]),
        (None, status(RUNNING), ["READY=1", "STATUS=running, 0 running turns"]),
        (status(STARTING), status(RUNNING), ["READY=1", "STATUS=running, 0 running turns"]),
        (status(RUNNING), status(RUNNING), []),
        (status(RUNNING), status(RUNNING, turns=1), ["STATUS=running, 1 running turn"]),
        (
            status(RUNNING),
            status(DEGRADED, telegram="no route"),
            ["STATUS=degraded, 0 running turns, telegram retrying"],
        ),
        # Drained by a request from outside, the gateway does not end.
        (status(RUNNING), status(DRAINING), ["STATUS=draining, 0 running turns"]),
        (
            status(RUNNING, turns=2),
            status(DRAINING, turns=2, deadline=1605.0),
            ["STOPPING=1", "EXTEND_TIMEOUT_USEC=635000000", "STATUS=draining, 2 running turns"],
        ),
        (status(DRAINING, deadline=1605.0), status(DRAINING, deadline=1605.0), []),
        # The deadline came nearer: the manager gets the new time, and no second STOPPING.
        (
            status(DRAINING, deadline=1605.0),
            status(DRAINING, deadline=1005.0),
            ["EXTEND_TIMEOUT_USEC=90000000"],
        ),
        (status(DRAINING, deadline=1605.0), status(STOPPED), ["STATUS=stopped, 0 running turns"]),
    ],
)
def test_only_changes_are_sent_to_the_service_manager(
    before: Status | None, now: Status, told: list[str]
) -> None:
    assert list(changed_lines(before, now, time=1000.0)) == told


@pytest.mark.parametrize(
    ("environ", "period"),
    [
        ({}, None),
        ({"WATCHDOG_USEC": "60000000"}, 60.0),
        ({"WATCHDOG_USEC": "60000000", "WATCHDOG_PID": str(os.getpid())}, 60.0),
        ({"WATCHDOG_USEC": "60000000", "WATCHDOG_PID": "1"}, None),
        ({"WATCHDOG_USEC": "0"}, None),
        ({"WATCHDOG_USEC": "soon"}, None),
    ],
)
def test_the_watchdog_period_is_read_from_the_environment(
    environ: dict[str, str], period: float | None
) -> None:
    assert watchdog_period(environ) == period


class Manager:
    """A service manager that listens."""

    def __init__(self, socket: trio.socket.SocketType) -> None:
        self._socket = socket
        self.heard: list[str] = []
        """All received lines except WATCHDOG=1."""

    async def next(self) -> list[str]:
        """Return the lines of the next datagram."""
        lines = (await self._socket.recv(65536)).decode().split("\n")
        self.heard += [line for line in lines if line != "WATCHDOG=1"]
        return lines

    async def until(self, line: str) -> None:
        """Listen until a line begins with this text."""
        with trio.fail_after(PATIENCE):
            while not any(heard.startswith(line) for heard in self.heard):
                await self.next()

    async def hears_it_is_alive(self) -> None:
        with trio.fail_after(PATIENCE):
            while "WATCHDOG=1" not in await self.next():
                pass

    async def hears_the_rest(self) -> None:
        """Receive all datagrams that were sent before."""
        with trio.move_on_after(0.2):
            while True:
                await self.next()

    @property
    def facts(self) -> list[str]:
        """The names of the received lines, without STATUS."""
        return [line.partition("=")[0] for line in self.heard if not line.startswith("STATUS=")]


@asynccontextmanager
async def listening(address: str) -> AsyncIterator[Manager]:
    with trio.socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        await listener.bind("\0" + address[1:] if address.startswith("@") else address)
        yield Manager(listener)


def addresses() -> list[str]:
    return ["path", "abstract"] if sys.platform == "linux" else ["path"]


@pytest.mark.timeout(180)
@pytest.mark.parametrize("kind", addresses())
async def test_a_service_manager_is_notified_through_a_whole_life(tmp_path: Path, kind: str) -> None:
    home = tmp_path / "home"
    address = str(tmp_path / "notify") if kind == "path" else f"@hermes-trio-test-{os.getpid()}"
    async with listening(address) as manager, open_loopback() as platform:
        configure(home, port=platform.port, grace=600)
        environ = environment(home, NOTIFY_SOCKET=address, WATCHDOG_USEC="400000")
        async with living(home, environ=environ) as life:
            await manager.until("READY=1")
            await manager.hears_it_is_alive()
            await manager.until("STATUS=running, 0 running turns")

            await platform.says("count to 5000")
            await manager.until("STATUS=running, 1 running turn")

            life.signal(signal.SIGINT)
            await manager.until("STATUS=draining, 1 running turn")
            extended = next(line for line in manager.heard if line.startswith("EXTEND_TIMEOUT_USEC="))
            seconds = int(extended.partition("=")[2]) / 1e6
            assert 600 + ROOM_TO_STOP - PATIENCE < seconds <= 605 + ROOM_TO_STOP
            assert seconds > LEAST_STOP_TIMEOUT
            await manager.hears_it_is_alive()

            life.signal(signal.SIGINT)
            assert await life.ended() == 0
            await manager.hears_the_rest()
    assert manager.facts == [*STORED, "READY", "STOPPING", "EXTEND_TIMEOUT_USEC"]
    assert manager.heard[-1] == "STATUS=stopped, 0 running turns"


@pytest.mark.timeout(120)
async def test_a_gateway_that_hangs_sends_no_sign_of_life(tmp_path: Path) -> None:
    home, address = tmp_path / "home", str(tmp_path / "notify")
    configure(home)
    async with listening(address) as manager:
        environ = environment(home, NOTIFY_SOCKET=address, WATCHDOG_USEC="400000")
        async with living(home, environ=environ) as life:
            await manager.hears_it_is_alive()
            life.signal(signal.SIGSTOP)
            await manager.hears_the_rest()
            with trio.move_on_after(2) as silence:
                await manager.next()
            assert silence.cancelled_caught
            life.signal(signal.SIGCONT)
            await manager.hears_it_is_alive()


@pytest.mark.timeout(120)
@pytest.mark.parametrize("address", ["/nowhere/at/all", "vsock:2:1", "@" + "x" * 500, ""])
async def test_a_gateway_runs_without_a_service_manager_that_listens(tmp_path: Path, address: str) -> None:
    home = tmp_path / "home"
    configure(home)
    environ = environment(home, NOTIFY_SOCKET=address)
    async with living(home, environ=environ) as life:
        await life.up()
        assert (await hermes("stop", environ=environ)).returncode == 0
        assert await life.ended() == 0
