"""Backups that the gateway makes by itself, if `backup.every_hours` says so.

Each is made by a process of its own, `hermes-trio backup`: reading and packing a large home takes minutes of
computing, and no chat is to wait for that. At a stop it is killed; a backup that is not whole gets no name.
"""

from __future__ import annotations

import os
import sys

import trio

from ...host.loop.worker import Runner, finished
from ...host.processes.guard import Guard
from ...log import Log
from ...state.backup.backup_file import backups_in
from ...state.backup.backup_writer import backup_folder
from .open_home import Home

HOUR = 3600.0
EARLY = HOUR / 2
"""Housekeeping comes once an hour, and not to the second: a backup that is due before the next half hour is
over is made now."""

log = Log(__name__)


async def back_up_if_due(home: Home, _: Guard | None, runner: Runner) -> None:
    """Make a backup if the newest one is old enough, and remove those beyond the number to keep."""
    wanted = home.config.backup
    if not wanted.every_hours:
        return
    folder = backup_folder(home.path, home.config)
    made = await finished(runner, lambda: backups_in(folder))
    if made and 0 <= home.world.time() - made[0][0].timestamp() < wanted.every_hours * HOUR - EARLY:
        return
    result = await trio.run_process(
        [sys.executable, "-m", "hermes_trio", "backup", "--to", str(folder), "--keep", str(wanted.keep)],
        env={**os.environ, "HERMES_HOME": str(home.path)},
        capture_stdout=True,
        capture_stderr=True,
        check=False,
        deliver_cancel=_kill,
    )
    if result.returncode:
        error = result.stderr.decode("utf-8", "replace").strip()[-1000:]
        log.error("scheduled backup not made; retrying in an hour", folder=str(folder), error=error)
    else:
        log.info("scheduled backup made", folder=str(folder))


async def _kill(process: trio.Process) -> None:
    process.kill()
