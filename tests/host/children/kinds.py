"""Commands that are hard to be rid of, and a way to see who of them is alive that asks none of the code
under test: each carries a number of its own on its command line, as the time that it would sleep."""

from __future__ import annotations

import itertools
import os
import sys
import time
from collections.abc import Callable

import psutil
import trio

_numbers = itertools.count(1)

# Moves to a process group of its own, as every job of an interactive shell does, and stays in its session.
_JOB = f"{sys.executable} -S -c 'import os, sys; os.setpgid(0, 0); os.execvp(sys.argv[1], sys.argv[1:])'"

KINDS: dict[str, str] = {
    "sleeps": "exec sleep {t}",
    "a tree": "sh -c 'sleep {t} & sh -c \"sleep {t} & wait\" & wait' & sleep {t} & wait",
    "ignores TERM": "trap '' TERM; while :; do sleep {t}; done",
    "forks twice in its group": "(sleep {t} & exec sleep {t} &); exec sleep {t}",
    "floods": "exec yes {t}",
}
"""What the promise names."""

MORE: dict[str, str] = {
    "ends before its children": "sleep {t} & (sleep {t} &) & exit 3",
    "has jobs": f"{_JOB} sleep {{t}} & wait",
    "sets its session": "setsid sleep {t} & sleep {t}",
    "sets its session and orphans": "(setsid sleep {t} &); exit 0",
    "sets its session and wipes its environment": "env -i setsid sleep {t} & wait",
    "wipes its environment": "exec env -i sleep {t}",
    "is stopped": "kill -STOP $$; sleep {t}",
}
"""What else people and programs do."""


def token() -> str:
    """A time to sleep that no other process on this machine was given, and longer than any story."""
    return f"{10_000 + os.getpid()}.{time.time_ns() % 10**9:09}{next(_numbers):04}"


def alive(token: str) -> list[int]:
    """The living processes that carry this token."""
    return [
        one.pid
        for one in psutil.process_iter(["cmdline"])
        if one.pid != os.getpid()
        and any(token in word for word in one.info["cmdline"] or [])
        and not is_dead(one)
    ]


def is_dead(one: psutil.Process) -> bool:
    """Whether it has ended, be it that its parent has not noticed."""
    try:
        return one.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def soon(condition: Callable[[], object], within: float = 10.0) -> float:
    """Wait until a condition holds and return how long that took; fails when the time is over."""
    start = time.monotonic()
    while not condition():
        assert time.monotonic() - start < within, "it did not come true in time"
        time.sleep(0.01)
    return time.monotonic() - start


async def until(condition: Callable[[], object], within: float = 10.0) -> None:
    """`soon`, while other tasks go on."""
    with trio.fail_after(within):
        while not condition():  # noqa: ASYNC110 - other processes set no event
            await trio.sleep(0.01)
