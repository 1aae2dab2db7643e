"""Notifications to systemd about the gateway, in the protocol of sd_notify(3).

They are derived from the status board: that we are ready, that we are stopping and until when, and the status
in words. A task on the event loop reports that the loop is alive. Where no service manager listens, none of
this runs.
"""

from __future__ import annotations

import os
import socket
from array import array
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager

import trio

from ...base.world import World
from ...log import Log
from ..home.state_file import GatewayState, Status
from ..home.status_board import StatusBoard
from .service_files import stop_timeout

STORED_AS = "web"
"""Name of our sockets in the store of the manager."""

log = Log(__name__)


async def notify_service_manager(
    board: StatusBoard, environ: Mapping[str, str], world: World, listening: Sequence[socket.socket] = ()
) -> None:
    """Give the service manager that started us the listening sockets, which it passes to the next life, and
    send it the changes of the board, until cancelled."""
    async with _manager(environ) as manager:
        if manager is None:
            return
        await _store(manager, listening)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_tell_changes, manager, board, world)
            if period := watchdog_period(environ):
                nursery.start_soon(_say_alive, manager, period)


async def name_main_process(environ: Mapping[str, str], pid: int) -> None:
    """Tell the service manager that started us that another process is the gateway from now on. Only the main
    process is listened to, so this is the last notification of this one, and that one sends none before."""
    async with _manager(environ) as manager:
        if manager is not None:
            await _tell(manager, f"MAINPID={pid}")


@asynccontextmanager
async def _manager(environ: Mapping[str, str]) -> AsyncIterator[trio.socket.SocketType | None]:
    """Connect to the service manager; yield None where none listens."""
    address = environ.get("NOTIFY_SOCKET", "")
    if not address.startswith(("/", "@")):
        yield None
        return
    with trio.socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        try:
            await manager.connect("\0" + address[1:] if address[0] == "@" else address)
        except OSError as error:
            log.warning("service manager does not listen", error=str(error))
            yield None
            return
        yield manager


async def _store(manager: trio.socket.SocketType, listening: Sequence[socket.socket]) -> None:
    """Let the manager hold these sockets, and no longer those that it was given before."""
    await _tell(manager, "FDSTOREREMOVE=1", f"FDNAME={STORED_AS}")
    files = array("i", [one.fileno() for one in listening])
    try:
        await manager.sendmsg(
            [f"FDSTORE=1\nFDNAME={STORED_AS}".encode()], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, files)]
        )
    except OSError as error:
        log.warning("listening sockets not stored by the service manager", error=str(error))


async def _tell_changes(manager: trio.socket.SocketType, board: StatusBoard, world: World) -> None:
    told: Status | None = None
    while True:
        version, status = board.version, board.status
        if lines := list(changed_lines(told, status, world.time())):
            await _tell(manager, *lines)
        told = status
        await board.changed_since(version)


async def _say_alive(manager: trio.socket.SocketType, period: float) -> None:
    while True:
        await _tell(manager, "WATCHDOG=1")
        await trio.sleep(period / 2)


async def _tell(manager: trio.socket.SocketType, *lines: str) -> None:
    try:
        await manager.send("\n".join(lines).encode())
    except OSError as error:
        log.warning("service manager not notified", error=str(error))


def watchdog_period(environ: Mapping[str, str]) -> float | None:
    """Return the longest time in seconds between our signs of life; None if the manager expects none."""
    mine = environ.get("WATCHDOG_PID") in (None, str(os.getpid()))
    microseconds = environ.get("WATCHDOG_USEC", "")
    return int(microseconds) / 1e6 if mine and microseconds.isdecimal() and int(microseconds) else None


def changed_lines(told: Status | None, now: Status, time: float) -> Iterator[str]:
    """Yield the lines that the manager has not been sent yet."""
    if is_ready(now) and not (told and is_ready(told)):
        yield "READY=1"
    if now.deadline is not None and (told is None or told.deadline != now.deadline):
        if told is None or told.deadline is None:
            yield "STOPPING=1"
        # As in our unit, but counted from the real grace, so that the manager's timer never ends before ours.
        yield f"EXTEND_TIMEOUT_USEC={round(stop_timeout(now.deadline - time) * 1e6)}"
    if told is None or status_text(told) != status_text(now):
        yield f"STATUS={status_text(now)}"


def is_ready(status: Status) -> bool:
    """Return True if the gateway accepts messages, or did so in this life."""
    return status.gateway_state not in (GatewayState.STARTING, GatewayState.STARTUP_FAILED)


def status_text(status: Status) -> str:
    """Return the status in words, on one line."""
    troubled = [f"{name} {one.state}" for name, one in status.platforms.items() if one.error]
    turns = f"{status.active_turns} running turn{'s' * (status.active_turns != 1)}"
    return ", ".join([status.gateway_state, turns, *troubled])
