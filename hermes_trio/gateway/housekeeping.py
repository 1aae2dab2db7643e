"""Housekeeping: what keeps a home from growing for ever.

| what | is kept |
|---|---|
| run journals, and what was asked in the runs | `retention.journal_days` after the run |
| messages that were dealt with, and what came along with them | `retention.inbox_days` |
| what was sent | `retention.outbox_days` |
| the output of processes, and that they ran | `retention.spool_days` after their end |
| sessions, with all that is theirs; how former lives ended | `retention.session_days` after their last use |

A file goes when its row says so; one that no row knows any more (a kill came between the two) when it is
as old itself. Not in the table: an idle or daily reset. It is decided when the session is used next, from
its row, so nothing has to happen when its clock runs out. What that decision rests on has to be true,
though: a process that ended unnoticed is not to keep its session from being reset.

One round a minute after the start, then one every hour; every day's first looks through the journals too,
directory by directory. Every write is small, so nobody waits for it.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import trio

from ..base.errors import GatewayError
from ..host.loop.worker import Runner, finished
from ..host.processes.leftovers import group_of
from ..log import Log
from ..state.rules.retention import Cutoffs, forget_done
from ..state.tables import processes, turns

if TYPE_CHECKING:
    from .parts import Gateway

FIRST = 60.0
EVERY = 3600.0
DAY = 86400.0

log = Log(__name__)


async def keep_house(gateway: Gateway) -> None:
    """Do a round every hour, until cancelled."""
    hourly = (_note_ends, _forget_rows, _forget_outputs, _forget_files, _forget_sessions)
    with gateway.worker("upkeep") as runner:
        due = trio.current_time() + FIRST
        for number in itertools.count():
            await trio.sleep_until(due)
            for job in hourly if number % 24 else (*hourly, _forget_journals):
                try:
                    await job(gateway, runner)
                except (GatewayError, OSError) as error:
                    # Reported, and the next round tries again; nothing else waits for it.
                    log.warning("housekeeping could not do all", job=job.__name__, error=str(error))
            due += EVERY


async def _note_ends(gateway: Gateway, _: Runner) -> None:
    """Note the end of processes that nobody saw ending: a turn that is cut does not wait to see it."""
    rows = await gateway.database.read(processes.alive)
    if not rows or gateway.guard is None:
        return
    table = await gateway.guard.look()  # asked after the rows: whoever has one had begun
    for row in rows:
        if not group_of(row, table).living(table):
            await gateway.database.write(processes.end, row.process_id, None, gateway.world.time())


async def _forget_rows(gateway: Gateway, _: Runner) -> None:
    now, keep = gateway.world.time(), gateway.config.retention
    before = Cutoffs(
        inbox=now - keep.inbox_days * DAY,
        outbox=now - keep.outbox_days * DAY,
        approvals=now - keep.journal_days * DAY,
        endings=now - keep.session_days * DAY,
    )
    while await gateway.database.write(forget_done, before):
        pass


async def _forget_outputs(gateway: Gateway, runner: Runner) -> None:
    before = gateway.world.time() - gateway.config.retention.spool_days * DAY
    spools = gateway.home / "spools"
    old = await gateway.database.write(processes.prune, ended_before=before)
    known = await gateway.database.read(processes.names)
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


async def _forget_files(gateway: Gateway, runner: Runner) -> None:
    before = gateway.world.time() - gateway.config.retention.inbox_days * DAY
    await finished(runner, lambda: _remove_files(gateway.home / "files", before))


def _remove_files(files: Path, before: float) -> None:
    for session in list(files.iterdir()) if files.exists() else ():
        for path in list(session.iterdir()):
            if path.lstat().st_mtime < before:
                path.unlink()
        with suppress(OSError):  # it goes with its last file
            session.rmdir()


async def _forget_sessions(gateway: Gateway, _: Runner) -> None:
    gone = await gateway.store.prune_old_sessions(gateway.config.retention.session_days)
    for session_id in gone:
        await gateway.journals.delete_session(session_id)
    if gone:
        log.info("sessions of long ago are forgotten", sessions=len(gone))


async def _forget_journals(gateway: Gateway, _: Runner) -> None:
    before = gateway.world.time() - gateway.config.retention.journal_days * DAY
    for session_id in await gateway.journals.session_ids():
        written = await gateway.journals.written(session_id)
        ended = await gateway.database.read(turns.run_ends, session_id)
        # A run without a row is about to get one, or lost it with its session: then its age is its file's.
        old = [run for run, at in written.items() if (end := ended.get(run, at)) is not None and end < before]
        if old or not written:
            await gateway.journals.delete_runs(session_id, old)
