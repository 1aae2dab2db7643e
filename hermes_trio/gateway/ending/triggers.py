"""Triggers of an ending from outside this process: signals, the marker file that another process writes, and
the removal of the database files.

None of them ends anything: each requests the ending from `Control`. A trigger may touch `Control`, the
markers of the home and the database; it knows no chat and no turn.
"""

from __future__ import annotations

import signal
from pathlib import Path

import trio

from ...base.errors import StoreError
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
    """Return the signals to which the gateway listens, as far as this system has them."""
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
    """Request the ending that a signal means. A second stop signal sets the grace to zero. The grace begins
    when the signal arrives, even if the event loop is late."""
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
                log.warning("second stop signal; grace set to zero", signal=name)
                control.hurry()
            if name != "SIGTERM":
                control.ask(Ending(Cause.PLANNED, grace, asked_by=name), at=at)
            elif marker is not None or not asked:  # a second signal needs no marker
                control.ask(_meant(marker, grace), at=at)
            asked = True


async def run_planned_stop_watcher(
    control: Control, home: Path, me: ProcessId, world: World, grace: float
) -> None:
    """Look for the marker of a planned stop for this process, until there is one. It is polled: not every
    system can notify a process of a new file."""
    while control.current is None:
        try:
            found = read_planned_stop(home, me, world, booted=boot_time())
        except OSError as error:
            log.warning("planned-stop marker not readable", error=str(error))
        else:
            if found.marker is not None:
                control.ask(_meant(found.marker, grace))
                try:
                    # The writer of the marker may send its signal only now; `obey_signals` must then find it.
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
    """Hold the gateway while the home holds a drain request, until the request is removed or too old. Reports
    `started` after the first look, so that a request that is there at the start applies from the start."""
    logged = _apply_drain_request(control, home, world, None)
    task_status.started()
    while True:
        await trio.sleep(LOOK_EVERY)
        logged = _apply_drain_request(control, home, world, logged)


def _apply_drain_request(control: Control, home: Path, world: World, logged: str | None) -> str | None:
    """Look for the request once, and hold the gateway or let it go on. Return the problem of the request, if
    it has one; `logged` is the one that was logged last and is not logged again."""
    try:
        found = read_drain_request(home, world)
    except OSError as error:
        log.warning("drain request not readable", error=str(error))
        return logged
    if found.problem is not None and found.problem != logged:
        log.warning("drain request has a problem", problem=found.problem)
    quiet = found.marker is not None and found.marker.suppress_notification
    control.hold(found.marker is not None, quiet=quiet)
    return found.problem


async def end_with_database(control: Control, database: Database, world: World) -> None:
    """Wait until the database files are removed or replaced; then save a copy and request the ending. The
    copy comes first: only the open file still has the data, and it is gone with this process."""
    await database.replaced()
    control.refuse_turns()
    log.error("database files removed or replaced; no turn begins any more")
    while True:
        try:
            saved = await database.save(world)
        except (OSError, StoreError) as error:
            log.error("database copy not saved; retrying", error=str(error))
            await trio.sleep(SAVE_AGAIN_AFTER)
        else:
            log.error("database copy saved", saved=saved.name if saved else "")
            control.ask(Ending(Cause.STORE_REPLACED, grace=0, asked_by="the database"))
            return


def _meant(marker: PlannedStop | None, grace: float) -> Ending:
    """Return the ending that a stop signal means: the one that the marker announces, or, without a marker,
    that of a signal."""
    if marker is None:
        return Ending(Cause.SIGNAL, grace, asked_by="SIGTERM")
    cause = Cause.RESTART if marker.kind == "restart" else Cause.PLANNED
    return Ending(cause, grace, asked_by=marker.asked_by or f"pid {marker.stopper_pid}")
