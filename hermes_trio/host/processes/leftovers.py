"""Process groups that are still running after a gateway was killed together with its guard.

They are listed in the `processes` table: its rows without an end. A leader is signalled only if its pid *and*
its start time are those of the row, and the row is from this boot. Where the leader is gone or its pid was
reused, the group is only the processes that carry the marker of the row.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

import trio

from ...log import Log
from . import sweep
from .process_groups import PATIENCE, Look, Patience, end_group
from .process_identity import boot_time

# Boots are told apart by the time of day; it and the machine's uptime are not read at the same instant.
CLOCK_SLACK = 1.0

log = Log(__name__)


class RecordedGroup(Protocol):
    """A row of the `processes` table: a group that was started in an earlier life."""

    @property
    def process_id(self) -> str: ...
    @property
    def pid(self) -> int: ...
    @property
    def pid_time(self) -> float: ...
    @property
    def started_at(self) -> float: ...


@dataclass(frozen=True, slots=True)
class Leftover:
    """A group that still had living members, and whether it was ended."""

    process_id: str
    pids: tuple[int, ...]
    ended: bool


async def end_leftovers(
    rows: Iterable[RecordedGroup],
    look: Look,
    ending: trio.Event,
    *,
    patience: Patience = PATIENCE,
    system: sweep.System = sweep.THIS_SYSTEM,
) -> list[Leftover]:
    """End the living members of these groups, all groups at the same time. Return the groups that had living
    members. This takes no longer than the end of one group, whatever hangs."""
    rows = list(rows)
    if not rows:
        return []
    table = await look()
    ended: list[Leftover] = []

    async def end(group: sweep.ProcessGroup, pids: tuple[int, ...]) -> None:
        leftover = Leftover(group.id, pids, await end_group(group, look, ending, patience))
        if leftover.ended:
            log.warning("process group of an earlier life ended", group=group.id, pids=pids)
        else:
            log.warning("process group of an earlier life not ended", group=group.id, pids=pids)
        ended.append(leftover)

    async with trio.open_nursery() as nursery:
        for row in rows:
            group = group_of(row, table, system)
            if members := group.living(table):
                nursery.start_soon(end, group, tuple(sorted(one.pid for one in members)))
    return ended


def group_of(
    row: RecordedGroup, table: sweep.ProcessTable, system: sweep.System = sweep.THIS_SYSTEM
) -> sweep.ProcessGroup:
    """Return the group of this row; its leader is known only if it is in the table."""
    leader = table.by_pid.get(row.pid)
    same_boot = row.started_at > boot_time() - CLOCK_SLACK
    if leader is not None and same_boot and float(leader.born) == row.pid_time:
        return sweep.ProcessGroup(row.process_id, leader.pid, leader.born, system)
    return sweep.ProcessGroup(row.process_id, system=system)
