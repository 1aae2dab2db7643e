"""Resources of this process that must be ended: tasks, child processes, files, sockets and threads."""

from __future__ import annotations

import os
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import psutil
import trio


@dataclass(frozen=True)
class Held:
    """The resources at one moment."""

    tasks: frozenset[trio.lowlevel.Task]
    children: frozenset[psutil.Process]
    files: Counter[str]
    """Targets of the file descriptors; empty on a system that does not tell them."""
    threads: Counter[str]
    """Names of the threads, without the idle ones of Trio."""

    def beyond(self, other: Held) -> list[str]:
        """Return the resources that `other` does not have."""
        return [
            *map(repr, self.tasks - other.tasks),
            *map(repr, self.children - other.children),
            *(self.files - other.files),
            *(self.threads - other.threads),
        ]


def held() -> Held:
    return Held(
        frozenset(tasks()),
        frozenset(psutil.Process().children(recursive=True)),
        Counter(_files()) if sys.platform == "linux" else Counter(),
        Counter(one.name for one in threading.enumerate() if not one.name.startswith("Trio thread ")),
    )


def tasks() -> Iterator[trio.lowlevel.Task]:
    """Yield all tasks of the loop."""
    root = trio.lowlevel.current_root_task()
    assert root is not None
    return _below(root)


def _below(task: trio.lowlevel.Task) -> Iterator[trio.lowlevel.Task]:
    yield task
    for nursery in task.child_nurseries:
        for child in nursery.child_tasks:
            yield from _below(child)


def _files() -> Iterator[str]:
    for number in os.listdir("/proc/self/fd"):
        try:
            yield os.readlink(f"/proc/self/fd/{number}")
        except FileNotFoundError:  # the descriptor of this listing
            continue
