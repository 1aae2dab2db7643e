"""Telling systemd how the gateway is, in the language of sd_notify(3).

What is told is derived from the status board: that we are ready, that we are stopping and until when,
and in words what is going on. That the loop is alive is told by a task on that loop. Where no service
manager listens, there is nothing to do.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator, Mapping

import trio

from ...base.world import World
from ...log import Log
from ..home.state_file import GatewayState, Status
from ..home.status_board import StatusBoard
from .service_files import stop_timeout

log = Log(__name__)


async def keep_told(board: StatusBoard, environ: Mapping[str, str], world: World) -> None:
    """Tell the service manager that started us what the board says, until cancelled."""
    address = environ.get("NOTIFY_SOCKET", "")
    if not address.startswith(("/", "@")):
        return
    with trio.socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        try:
            await manager.connect("\0" + address[1:] if address[0] == "@" else address)
        except OSError as error:
            log.warning("the service manager does not listen", error=str(error))
            return
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_tell_changes, manager, board, world)
            if period := watchdog_period(environ):
                nursery.start_soon(_say_alive, manager, period)


async def _tell_changes(manager: trio.socket.SocketType, board: StatusBoard, world: World) -> None:
    told: Status | None = None
    while True:
        version, status = board.version, board.status
        if lines := list(news(told, status, world.time())):
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
        log.warning("the service manager could not be told", error=str(error))


def watchdog_period(environ: Mapping[str, str]) -> float | None:
    """Seconds within which the manager wants to hear from us; None if it does not."""
    mine = environ.get("WATCHDOG_PID") in (None, str(os.getpid()))
    microseconds = environ.get("WATCHDOG_USEC", "")
    return int(microseconds) / 1e6 if mine and microseconds.isdecimal() and int(microseconds) else None


def news(told: Status | None, now: Status, time: float) -> Iterator[str]:
    """What the manager has not been told yet."""
    if is_ready(now) and not (told and is_ready(told)):
        yield "READY=1"
    if now.deadline is not None and (told is None or told.deadline != now.deadline):
        if told is None or told.deadline is None:
            yield "STOPPING=1"
        # As our unit says it, but counted from the grace we really have: its timer never ends before ours.
        yield f"EXTEND_TIMEOUT_USEC={round(stop_timeout(now.deadline - time) * 1e6)}"
    if told is None or in_words(told) != in_words(now):
        yield f"STATUS={in_words(now)}"


def is_ready(status: Status) -> bool:
    """Whether the doors are open, or have been."""
    return status.gateway_state not in (GatewayState.STARTING, GatewayState.STARTUP_FAILED)


def in_words(status: Status) -> str:
    """The status on one line."""
    troubled = [f"{name} {one.state}" for name, one in status.platforms.items() if one.error]
    turns = f"{status.active_turns} running turn{'s' * (status.active_turns != 1)}"
    return ", ".join([status.gateway_state, turns, *troubled])
