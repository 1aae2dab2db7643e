"""What a gateway left running that was killed together with its guard.

The list is the `processes` table: rows without an end. A leader is only touched if its pid *and* the
moment it began are those of the row, and the row is from this boot. Where the leader is gone, or is
somebody else by now, only processes that carry the marker of the row are its group.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

import trio

from ...log import Log
from . import sweep
from .process_groups import Look, end_group
from .process_identity import boot_time

# Boots are told apart by the time of day, which is not read in one instant with that of the machine.
CLOCK_SLACK = 1.0

log = Log(__name__)


class RecordedGroup(Protocol):
    """What has to be known of a group that was started in an earlier life."""

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
    """A group of which somebody was still alive, and whether nobody is now."""

    process_id: str
    pids: tuple[int, ...]
    ended: bool


async def end_leftovers(rows: Iterable[RecordedGroup], look: Look, ending: trio.Event) -> list[Leftover]:
    """End what is left of these groups, all at the same time; returns those of which something was. It
    takes no longer than the end of one group, whatever hangs."""
    rows = list(rows)
    if not rows:
        return []
    table = await look()
    ended: list[Leftover] = []

    async def end(group: sweep.ProcessGroup, pids: tuple[int, ...]) -> None:
        leftover = Leftover(group.id, pids, await end_group(group, look, ending))
        log.warning(
            "ended what an earlier life left running", group=group.id, pids=pids, ended=leftover.ended
        )
        ended.append(leftover)

    async with trio.open_nursery() as nursery:
        for row in rows:
            group = group_of(row, table)
            if members := group.living(table):
                nursery.start_soon(end, group, tuple(sorted(one.pid for one in members)))
    return ended


def group_of(row: RecordedGroup, table: sweep.ProcessTable) -> sweep.ProcessGroup:
    """The group of this row among these processes."""
    leader = table.by_pid.get(row.pid)
    same_boot = row.started_at > boot_time() - CLOCK_SLACK
    if leader is not None and same_boot and float(leader.born) == row.pid_time:
        return sweep.ProcessGroup(row.process_id, leader.pid, leader.born)
    return sweep.ProcessGroup(row.process_id)
