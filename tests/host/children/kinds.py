"""Commands that are hard to end, and a way to find their living processes without the code under test: each
command line carries a unique number, the time that the process would sleep."""

from __future__ import annotations

import itertools
import os
import sys
import time
from collections.abc import Callable

import psutil
import trio

_numbers = itertools.count(1)

# Moves to its own process group, as every job of an interactive shell does, and stays in its session.
_JOB = f"{sys.executable} -S -c 'import os, sys; os.setpgid(0, 0); os.execvp(sys.argv[1], sys.argv[1:])'"

KINDS: dict[str, str] = {
    "sleeps": "exec sleep {t}",
    "a tree": "sh -c 'sleep {t} & sh -c \"sleep {t} & wait\" & wait' & sleep {t} & wait",
    "ignores TERM": "trap '' TERM; while :; do sleep {t}; done",
    "forks twice in its group": "(sleep {t} & exec sleep {t} &); exec sleep {t}",
    "floods": "exec yes {t}",
}
"""The kinds of commands that the documentation promises to end."""

MORE: dict[str, str] = {
    "ends before its children": "sleep {t} & (sleep {t} &) & exit 3",
    "has jobs": f"{_JOB} sleep {{t}} & wait",
    "sets its session": "setsid sleep {t} & sleep {t}",
    "sets its session and orphans": "(setsid sleep {t} &); exit 0",
    "sets its session and wipes its environment": "env -i setsid sleep {t} & wait",
    "wipes its environment": "exec env -i sleep {t}",
    "is stopped": "kill -STOP $$; sleep {t}",
}
"""Other kinds of commands that people and programs run."""


def token() -> str:
    """Return a time to sleep that is unique on this machine and longer than any test."""
    return f"{10_000 + os.getpid()}.{time.time_ns() % 10**9:09}{next(_numbers):04}"


def alive(token: str) -> list[int]:
    """Return the pids of the living processes that carry this token."""
    return [
        one.pid
        for one in psutil.process_iter(["cmdline"])
        if one.pid != os.getpid()
        and any(token in word for word in one.info["cmdline"] or [])
        and not is_dead(one)
    ]


def is_dead(one: psutil.Process) -> bool:
    """Return True if a process has ended, whether it is reaped or not."""
    try:
        return one.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def soon(condition: Callable[[], object], within: float = 10.0) -> float:
    """Wait until a condition holds, and return how long that took. Fail after `within` seconds."""
    start = time.monotonic()
    while not condition():
        assert time.monotonic() - start < within, "the condition did not hold in time"
        time.sleep(0.01)
    return time.monotonic() - start


async def until(condition: Callable[[], object], within: float = 10.0) -> None:
    """Wait until a condition holds, while other tasks run. Fail after `within` seconds."""
    with trio.fail_after(within):
        while not condition():  # noqa: ASYNC110 - other processes set no event
            await trio.sleep(0.01)
