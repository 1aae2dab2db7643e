"""The identity of a process: its pid together with its start time.

A pid is reused. After a reboot a service often gets the pid it had before, and it may even begin at the same
tick; so the boot belongs to the identity too.

On Linux the start time is the kernel's count of clock ticks since the boot. A start time in seconds since
1970 would be computed with the time of day: after a clock change (a board without a battery, a virtual
machine that slept) every earlier process would seem to be another one. Other systems store the time of day at
which a process began, and that value does not change.
"""

from __future__ import annotations

import os
import sys
import time
from dataclasses import dataclass
from functools import cache
from pathlib import Path

_PROC = Path("/proc")


@dataclass(frozen=True, slots=True)
class ProcessId:
    """One process, distinct from every other process that has or had its pid."""

    pid: int
    started: float
    """Linux: clock ticks since the boot; elsewhere: seconds since 1970."""
    boot: str = ""
    """The boot that the ticks count from; empty where it is not known or not needed."""

    def names(self, other: ProcessId) -> bool:
        """Return True if both mean the same process."""
        same = (self.pid, self.started) == (other.pid, other.started)
        return same and may_be_one_boot(self.boot, other.boot)


def own() -> ProcessId:
    """Return the identity of this process."""
    process = find(os.getpid())
    if process is None:
        raise RuntimeError("this system does not show the start times of processes")
    return process


def is_alive(process: ProcessId) -> bool:
    """Return True if this very process still runs. A process that has ended and is not reaped does not."""
    living = find(process.pid)
    return living is not None and living.names(process)


def runs_below(ancestor: ProcessId) -> bool:
    """Return True if that living process is our parent or another ancestor."""
    # Imported here, because few callers need it.
    import psutil

    try:
        return any(parent.pid == ancestor.pid for parent in psutil.Process().parents())
    except psutil.Error:
        return False


def find_in_proc(pid: int) -> ProcessId | None:
    """Return the living process with this pid, from /proc; None if there is none."""
    try:
        state, ticks = parse_stat((_PROC / str(pid) / "stat").read_text("utf-8", "replace"))
    except OSError:  # gone, going, or hidden from us
        return None
    return None if state in "ZXx" else ProcessId(pid, float(ticks), boot_epoch())


def find_by_psutil(pid: int) -> ProcessId | None:
    """Return the living process with this pid, on any system; None if there is none."""
    # Imported here, because Linux does without it. psutil never sends signal 0, which ends a process on
    # Windows.
    import psutil

    try:
        process = psutil.Process(pid)
        dead = process.status() in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)
        return None if dead else ProcessId(pid, process.create_time())
    except (psutil.Error, ValueError):
        return None


find = find_in_proc if sys.platform == "linux" else find_by_psutil


def parse_stat(stat: str) -> tuple[str, int]:
    """Return the state of a process, and its start in ticks since the boot."""
    # The name is in parentheses and may itself contain parentheses.
    fields = stat.rpartition(")")[2].split()
    return fields[0], int(fields[19])


@cache
def boot_epoch() -> str:
    """Return a text that stays the same until the machine or the container around us restarts; empty where
    the system does not show it."""
    try:
        boot_id = (_PROC / "sys/kernel/random/boot_id").read_text("ascii").strip()
        _, first_ticks = parse_stat((_PROC / "1/stat").read_text("utf-8", "replace"))
    except (OSError, ValueError):
        return ""
    return f"{boot_id}:{first_ticks}"


def may_be_one_boot(one: str, other: str) -> bool:
    """Return False if two boots are known to differ. A boot that one side does not know is no difference."""
    return one == other or not (one and other)


def boot_time() -> float:
    """Return when this machine started, in seconds since 1970 by the current time of day."""
    if sys.platform == "linux":
        return time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)
    else:  # noqa: RET505 - mypy understands only this form
        import psutil

        return psutil.boot_time()
