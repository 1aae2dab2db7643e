"""The tasks of this program as a tree: where each task waits, since when, and until when at the latest.

The tree has three readers: the watchdog, when the loop does not answer; a person, who runs `status --tree`;
and tests, which check that no task is left.
"""

from __future__ import annotations

import math
import os
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import trio

from ...base.world import World
from ...log import Log
from ..files.json_files import write_small
from .worker import BatchTimes

TREE_FILE = "gateway_tree.txt"
LONG_STEP = 0.01
"""Seconds of a step that others feel."""

log = Log(__name__)


@dataclass(frozen=True, slots=True)
class TaskLine:
    """One task of the tree."""

    depth: int
    name: str
    waits: tuple[str, ...]
    """The places where it waits, innermost first, without those inside Trio. Of a running task only the
    outermost place is known; the rest is on its thread's stack."""
    since: float
    """The time since which it waits, on Trio's clock; NaN if it was not noted."""
    deadline: float
    """The time at which it is cancelled at the latest, on Trio's clock. Infinite for never, minus infinite if
    it is cancelled already."""


class WaitTimes(trio.abc.Instrument):
    """Notes since when each task waits, and each step of a task that holds the loop for long. This costs
    nearly a microsecond for each step, so only our own programs install it."""

    def __init__(self) -> None:
        self.since: dict[trio.lowlevel.Task, float] = {}
        self.long_steps = BatchTimes()
        """The durations of the steps that took longer than `LONG_STEP`."""
        self._now = trio.lowlevel.current_clock().current_time
        self._step_began = math.inf

    # Not `after_task_step`: for the last step of a task, Trio calls it after `task_exited`. A step ends when
    # the next one begins, or the loop waits.
    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self.since[task] = now = self._now()
        if now - self._step_began > LONG_STEP:
            self.long_steps.note(now - self._step_began)
        self._step_began = now

    def before_io_wait(self, timeout: float) -> None:
        if (took := self._now() - self._step_began) > LONG_STEP:
            self.long_steps.note(took)
        self._step_began = math.inf

    def task_exited(self, task: trio.lowlevel.Task) -> None:
        self.since.pop(task, None)


@contextmanager
def waits_noted() -> Iterator[WaitTimes]:
    """Note during the block since when each task waits."""
    waits = WaitTimes()
    trio.lowlevel.add_instrument(waits)
    try:
        yield waits
    finally:
        trio.lowlevel.remove_instrument(waits)


def task_tree(root: trio.lowlevel.Task | None = None, waits: WaitTimes | None = None) -> list[TaskLine]:
    """Return all tasks, each before its children. A call from another thread must pass the root, and may see
    tasks that are changing."""
    since = waits.since if waits else {}
    top = root or trio.lowlevel.current_root_task()
    lines, todo = [], [(0, top)] if top else []
    while todo:
        depth, task = todo.pop()
        # Trio has no public way to read the deadline of a task other than the current one.
        deadline = task._cancel_status.effective_deadline()
        lines.append(TaskLine(depth, task.name, _places(task), since.get(task, math.nan), deadline))
        children = [child for nursery in task.child_nurseries for child in nursery.child_tasks]
        todo += ((depth + 1, child) for child in sorted(children, key=lambda child: child.name, reverse=True))
    return lines


def tree_text(lines: Sequence[TaskLine], now: float) -> str:
    """Return the tree for people; `now` is the time on Trio's clock."""
    return "\n".join(_line_text(line, now) for line in lines)


def _line_text(line: TaskLine, now: float) -> str:
    limit = ""
    if line.deadline < math.inf:
        limit = " [cancelled]" if line.deadline == -math.inf else f" [{line.deadline - now:.1f} s left]"
    known = "" if math.isnan(line.since) else f"{now - line.since:.1f} s in "
    return f"{'  ' * line.depth}{line.name}{limit}  {known}{' < '.join(line.waits)}".rstrip()


def _places(task: trio.lowlevel.Task) -> tuple[str, ...]:
    frames = [(frame.f_globals.get("__name__", "?"), frame, line) for frame, line in task.iter_await_frames()]
    outside = [place for place in frames if not place[0].startswith("trio.")] or frames[:1]
    return tuple(f"{module}:{line} {frame.f_code.co_name}" for module, frame, line in outside[:-4:-1])


async def write_tree_on_signal(
    home: Path,
    world: World,
    waits: WaitTimes,
    *,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Write the tree into the home now and at each SIGUSR2, until cancelled. The file exists only while this
    runs: the signal ends a program that does not expect it."""
    asking = getattr(signal, "SIGUSR2", None)
    if asking is None:
        task_status.started()
        return
    path, root = home / TREE_FILE, trio.lowlevel.current_root_task()

    def write() -> None:
        tree = tree_text(task_tree(root, waits), trio.current_time())
        try:
            write_small(path, f"pid {os.getpid()}, {world.now():%Y-%m-%d %H:%M:%S %Z}\n{tree}\n".encode())
        except OSError as error:
            log.warning("task tree not written", error=str(error))

    with trio.open_signal_receiver(asking) as signals:
        try:
            write()
            task_status.started()
            async for _ in signals:
                write()
        finally:
            with suppress(OSError):  # a read-only disk must not change how the program ends
                path.unlink(missing_ok=True)
