"""Housekeeping: deletes old rows and files, so that a home does not grow without bound.

| data | is kept |
|---|---|
| run journals, and the questions of their runs | `retention.journal_days` after the run |
| done messages | `retention.inbox_days` |
| files that people sent | `retention.files_days` |
| sent messages | `retention.outbox_days` |
| the output and the rows of child processes | `retention.spool_days` after their end |
| the temporary files of a session's commands | `retention.spool_days` after its last command |
| sessions with all their data; the endings of former lives | `retention.session_days` after their last use |

A file is deleted when its row is old enough. A file without a row (a kill came between the two) is deleted
when the file itself is that old. An idle or daily reset is not housekeeping: it is decided from the row when
the session is used next. For that decision a round also stores the end of child processes that ended
unnoticed: a dead process must not keep its session from being reset.

The first round runs a minute after the start, then one runs every hour. The first round of a day also goes
through the run journals, one directory at a time. Every write is small, so no other writer waits for it.

A backup that is due (`scheduled_backup`) is the last job of a round.

It may touch all tables and files of the home, and no task of the gateway.
"""

from __future__ import annotations

import itertools
import os
import shutil
from collections.abc import Collection, Iterable
from contextlib import suppress
from functools import partial
from pathlib import Path

import trio

from ...base.errors import GatewayError
from ...host.loop.worker import Runner, finished
from ...host.processes.guard import Guard
from ...host.processes.leftovers import group_of
from ...log import Log
from ...state.rules.retention import Cutoffs, forget_done
from ...state.tables import processes, turns
from ...tools.paths import remove_files
from .open_home import Home
from .scheduled_backup import back_up_if_due

FIRST = 60.0
EVERY = 3600.0
DAY = 86400.0

log = Log(__name__)


async def keep_house(home: Home, guard: Guard | None) -> None:
    """Run a round every hour, until cancelled."""
    hourly = (_note_ends, _forget_rows, _forget_outputs, _forget_scratch, _forget_files, _forget_sessions)
    daily = (*hourly, _forget_journals)
    with home.worker("upkeep") as runner:
        due = trio.current_time() + FIRST
        for number in itertools.count():
            await trio.sleep_until(due)
            for job in (*(hourly if number % 24 else daily), back_up_if_due):
                try:
                    await job(home, guard, runner)
                except (GatewayError, OSError) as error:
                    # The next round tries again; nothing else waits for it.
                    log.warning("housekeeping incomplete", job=job.__name__, error=str(error))
            due += EVERY


async def _note_ends(home: Home, guard: Guard | None, _: Runner) -> None:
    """Note the end of child processes that ended unnoticed: a turn that is cut does not wait for that."""
    rows = await home.database.read(processes.alive_in_home, home.life)
    if not rows or guard is None:
        return
    table = await guard.look()  # read after the rows: a process with a row had started by then
    for row in rows:
        if not group_of(row, table).living(table):
            await home.database.write(processes.end, row.process_id, None, home.world.time())


async def _forget_rows(home: Home, *_: object) -> None:
    now, keep = home.world.time(), home.config.retention
    before = Cutoffs(
        inbox=now - keep.inbox_days * DAY,
        outbox=now - keep.outbox_days * DAY,
        approvals=now - keep.journal_days * DAY,
        endings=now - keep.session_days * DAY,
    )
    while await home.database.write(forget_done, before):
        pass


async def _forget_outputs(home: Home, _: Guard | None, runner: Runner) -> None:
    before = home.world.time() - home.config.retention.spool_days * DAY
    spools = home.path / "spools"
    old = await home.database.write(processes.prune, ended_before=before)
    known = await home.database.read(processes.names)
    await finished(
        runner, lambda: _remove_outputs(spools, [Path(spool).name for spool in old], known, before)
    )


def _remove_outputs(spools: Path, old: Iterable[str], known: set[str], before: float) -> None:
    for name in old:
        (spools / name).unlink(missing_ok=True)
    if spools.exists():
        for entry in os.scandir(spools):
            if entry.name not in known and entry.stat(follow_symlinks=False).st_mtime < before:
                os.unlink(entry.path)


async def _forget_scratch(home: Home, _: Guard | None, runner: Runner) -> None:
    before = home.world.time() - home.config.retention.spool_days * DAY
    used = {row.session_id for row in await home.database.read(processes.alive)}
    await finished(runner, lambda: _remove_scratch(home.path / "scratch", used, before))


def _remove_scratch(scratch: Path, used: Collection[str], before: float) -> None:
    for session in list(scratch.iterdir()) if scratch.exists() else ():
        if session.name not in used and session.stat().st_mtime < before:
            shutil.rmtree(session, ignore_errors=True)


async def _forget_files(home: Home, _: Guard | None, runner: Runner) -> None:
    before = home.world.time() - home.config.retention.files_days * DAY
    await finished(runner, lambda: _remove_files(home.path / "files", before))


def _remove_files(files: Path, before: float) -> None:
    for session in list(files.iterdir()) if files.exists() else ():
        for path in list(session.iterdir()):
            if path.lstat().st_mtime < before:
                path.unlink()
        with suppress(OSError):  # not empty yet
            session.rmdir()


async def _forget_sessions(home: Home, _: Guard | None, runner: Runner) -> None:
    gone = await home.store.prune_old_sessions(home.config.retention.session_days)
    for session_id in gone:
        await home.journals.delete_session(session_id)
        await finished(runner, partial(remove_files, home.path, session_id))
    if gone:
        log.info("old sessions deleted", sessions=len(gone))


async def _forget_journals(home: Home, *_: object) -> None:
    before = home.world.time() - home.config.retention.journal_days * DAY
    for session_id in await home.journals.session_ids():
        written = await home.journals.written(session_id)
        ended = await home.database.read(turns.run_ends, session_id)
        # A run without a row is about to get one, or lost it with its session: then the age of its file
        # counts.
        old = [run for run, at in written.items() if (end := ended.get(run, at)) is not None and end < before]
        if old or not written:
            await home.journals.delete_runs(session_id, old)
