"""Which process is meant: its pid together with the moment it began.

A pid is used again. After a reboot a service often gets the pid it had before, and it may even begin
at the same tick; so the boot belongs to the identity too.

On Linux the moment is the kernel's own count of clock ticks since the boot. Seconds since 1970 are
computed from it with the time of day, and a clock that is set (a board without a battery, a virtual
machine that slept) would make every process of before look like another one. Elsewhere the system
keeps the time of day at which the process began, and that does not change.
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
    """One process, and no other one that has or had its pid."""

    pid: int
    started: float
    """Linux: clock ticks since the boot; elsewhere: seconds since 1970."""
    boot: str = ""
    """Which boot the ticks count from; empty where that is not known or not needed."""

    def names(self, other: ProcessId) -> bool:
        """Whether both mean one process."""
        same = (self.pid, self.started) == (other.pid, other.started)
        return same and may_be_one_boot(self.boot, other.boot)


def own() -> ProcessId:
    """This process."""
    process = find(os.getpid())
    if process is None:
        raise RuntimeError("this system does not tell when its processes began")
    return process


def is_alive(process: ProcessId) -> bool:
    """Whether this very process still runs. One that has ended and is not yet waited for does not."""
    living = find(process.pid)
    return living is not None and living.names(process)


def runs_below(ancestor: ProcessId) -> bool:
    """Whether this process was started by that living one, or by one that it has started."""
    # Here, because few ask.
    import psutil

    try:
        return any(parent.pid == ancestor.pid for parent in psutil.Process().parents())
    except psutil.Error:
        return False


def find_in_proc(pid: int) -> ProcessId | None:
    """The living process with this pid, from Linux' process files."""
    try:
        state, ticks = parse_stat((_PROC / str(pid) / "stat").read_text("utf-8", "replace"))
    except OSError:  # gone, going, or hidden from us
        return None
    return None if state in "ZXx" else ProcessId(pid, float(ticks), boot_epoch())


def find_by_psutil(pid: int) -> ProcessId | None:
    """The living process with this pid, on any system."""
    # Here, because Linux does without it. It never sends signal 0, which ends a process on Windows.
    import psutil

    try:
        process = psutil.Process(pid)
        dead = process.status() in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)
        return None if dead else ProcessId(pid, process.create_time())
    except (psutil.Error, ValueError):
        return None


find = find_in_proc if sys.platform == "linux" else find_by_psutil


def parse_stat(stat: str) -> tuple[str, int]:
    """The state of a process, and the ticks since the boot at which it began."""
    # The name stands in parentheses and may hold anything, these too.
    fields = stat.rpartition(")")[2].split()
    return fields[0], int(fields[19])


@cache
def boot_epoch() -> str:
    """What is the same for as long as neither the machine nor the container around us has started
    anew; empty where the system does not tell."""
    try:
        boot_id = (_PROC / "sys/kernel/random/boot_id").read_text("ascii").strip()
        _, first_ticks = parse_stat((_PROC / "1/stat").read_text("utf-8", "replace"))
    except (OSError, ValueError):
        return ""
    return f"{boot_id}:{first_ticks}"


def may_be_one_boot(one: str, other: str) -> bool:
    """Whether two epochs are the same, as far as is known: what one side does not know is no difference."""
    return one == other or not (one and other)


def boot_time() -> float:
    """When this machine started, in seconds since 1970 by the time of day as it is now."""
    if sys.platform == "linux":
        return time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)
    else:  # noqa: RET505 - a type checker follows only this form
        import psutil

        return psutil.boot_time()
