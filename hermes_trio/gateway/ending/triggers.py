"""What comes from outside this program and asks the gateway to end: signals, the marker file that another
process writes, and a hand on the files of the open database.

None of them ends anything. Each asks `control`, once; signals go on listening for a hurry.
"""

from __future__ import annotations

import signal
import sqlite3
from pathlib import Path

import trio

from ...base.world import World
from ...host.home.markers import PLANNED_STOP, PlannedStop, consume, read_drain_request, read_planned_stop
from ...host.processes.process_identity import ProcessId, boot_time
from ...host.processes.signal_arrivals import arrivals_noted
from ...log import Log
from ...state.db.database import Database
from .control import Control
from .endings_table import Cause, Ending

LOOK_EVERY = 0.5
SIGNAL_WITHIN = 5.0
SAVE_AGAIN_AFTER = 30.0

log = Log(__name__)


def signals_we_know() -> list[signal.Signals]:
    """Those that this system has."""
    names = ("SIGTERM", "SIGINT", "SIGUSR1", "SIGBREAK")
    return [found for name in names if (found := getattr(signal, name, None)) is not None]


async def obey_signals(
    control: Control,
    home: Path,
    me: ProcessId,
    world: World,
    grace: float,
    *,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Ask for the ending that a signal means. A second stop signal hurries. The grace begins when the signal
    arrives, also where the event loop is late."""
    with (
        trio.open_signal_receiver(*signals_we_know()) as signals,
        arrivals_noted(signals_we_know()) as arrived,
    ):
        task_status.started()
        asked = False
        async for number in signals:
            name, at = signal.Signals(number).name, arrived[number]
            if name == "SIGUSR1":
                control.ask(Ending(Cause.RESTART, grace, asked_by=name), at=at)
                continue
            marker = read_planned_stop(home, me, world, booted=boot_time()).marker
            if marker is not None:
                consume(home, PLANNED_STOP)
            if asked:
                log.warning("asked to stop a second time", signal=name)
                control.hurry()
            if name != "SIGTERM":
                control.ask(Ending(Cause.PLANNED, grace, asked_by=name), at=at)
            elif marker is not None or not asked:  # the signal that hurries need not be announced
                control.ask(_meant(marker, grace), at=at)
            asked = True


async def run_planned_stop_watcher(
    control: Control, home: Path, me: ProcessId, world: World, grace: float
) -> None:
    """Look for the marker of a planned stop until there is one for us; then this is over. The one poll
    there is: nothing tells a process on every system that another one has written a file."""
    while control.current is None:
        try:
            found = read_planned_stop(home, me, world, booted=boot_time())
        except OSError as error:
            log.warning("the planned-stop marker cannot be read", error=str(error))
        else:
            if found.marker is not None:
                control.ask(_meant(found.marker, grace))
                try:
                    # Whoever wrote it may send the signal only now. That means the same, and must find it.
                    await trio.sleep(SIGNAL_WITHIN)
                finally:
                    consume(home, PLANNED_STOP)
                return
        await trio.sleep(LOOK_EVERY)


async def watch_drain_request(
    control: Control,
    home: Path,
    world: World,
    *,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """While a drain request lies in the home, the gateway is held. It goes on when the request is gone, or
    has become too old. Started when it has looked once: what lies there at the start counts from then on."""
    said = _heed_drain_request(control, home, world, None)
    task_status.started()
    while True:
        await trio.sleep(LOOK_EVERY)
        said = _heed_drain_request(control, home, world, said)


def _heed_drain_request(control: Control, home: Path, world: World, said: str | None) -> str | None:
    """Look for the request once. Returns what is wrong with it; who said so already does not say it again."""
    try:
        found = read_drain_request(home, world)
    except OSError as error:
        log.warning("the drain request cannot be read", error=str(error))
        return said
    if found.problem is not None and found.problem != said:
        log.warning("a drain request", problem=found.problem)
    quiet = found.marker is not None and found.marker.suppress_notification
    control.hold(found.marker is not None, quiet=quiet)
    return found.problem


async def end_with_database(control: Control, database: Database, world: World) -> None:
    """When the files of the database are removed or replaced, save what it holds and ask for the ending.
    The copy comes first: the open file is all there is, and is gone with this process."""
    await database.replaced()
    control.refuse_turns()
    log.error("database files removed or replaced; nothing more is accepted")
    while True:
        try:
            saved = await database.save(world)
        except (OSError, sqlite3.Error) as error:
            log.error("database copy not saved; trying again", error=str(error))
            await trio.sleep(SAVE_AGAIN_AFTER)
        else:
            log.error("database copy saved", saved=saved.name if saved else "")
            control.ask(Ending(Cause.STORE_REPLACED, grace=0, asked_by="the database"))
            return


def _meant(marker: PlannedStop | None, grace: float) -> Ending:
    """What a stop signal means: what the marker on the disk announces, or, without one, a stop that
    nobody announced."""
    if marker is None:
        return Ending(Cause.SIGNAL, grace, asked_by="SIGTERM")
    cause = Cause.RESTART if marker.kind == "restart" else Cause.PLANNED
    return Ending(cause, grace, asked_by=marker.asked_by or f"pid {marker.stopper_pid}")
