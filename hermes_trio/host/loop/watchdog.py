"""Two watchers outside of the event loop: a blocked loop can neither time itself out nor report where it
hangs.

`last_resort` ends a process whose shutdown takes too long. It uses the thread of `faulthandler`, written in
C, which needs no lock of the interpreter and so works whatever Python does. Only our own programs arm it; a
library in another program never ends that.

`watch_loop` notices that the loop does not answer outside of a shutdown. It writes down where everything
hangs, once for each stall, and goes on watching. A period in which the watching thread slept as well was no
stall: the process or its machine was suspended.
"""

from __future__ import annotations

import faulthandler
import math
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import trio

from ...base.errors import EXIT_FAILURE, home_error
from ...base.world import World
from ...log import Log
from ..files.private_files import make_private_dir, open_private
from .task_tree import WaitTimes, task_tree, tree_text

WATCHDOG_LOG = Path("logs", "gateway-watchdog.log")
LARGEST_LOG = 5_000_000

log = Log(__name__)


@contextmanager
def last_resort(path: Path) -> Iterator[Callable[[float], None]]:
    """Yield a function that arms the last resort: after the given seconds the stack of every thread is
    written to `path` and the process ends with exit code 1. A later call can only make it earlier. The end of
    the block, which is the very end of the program, disarms it."""
    ends_at = math.inf

    def arm(seconds: float) -> None:
        nonlocal ends_at
        if time.monotonic() + seconds < ends_at:
            ends_at = time.monotonic() + seconds
            faulthandler.dump_traceback_later(max(seconds, 0.001), exit=True, file=fd)

    try:
        fd = _open_log(path)
    except OSError as error:
        raise home_error(path.parent.parent, error, str(WATCHDOG_LOG)) from error
    try:
        yield arm
    finally:
        faulthandler.cancel_dump_traceback_later()
        os.close(fd)


async def watch_loop(
    path: Path,
    world: World,
    waits: WaitTimes | None = None,
    *,
    stalled_after: float = 10.0,
    exit_after: float | None = None,
) -> None:
    """Watch the loop that this runs on, until cancelled. When it has not answered for `stalled_after`
    seconds, append the stacks of all threads and the task tree to `path`. A stall of `exit_after` seconds, if
    given, ends the process."""
    root, clock = trio.lowlevel.current_root_task(), trio.lowlevel.current_clock()
    assert root is not None  # noqa: S101 - this task runs below it

    def report(silent: float) -> None:
        tree = tree_text(task_tree(root, waits), clock.current_time())
        _append_report(path, f"{world.now():%Y-%m-%d %H:%M:%S %Z}, silent for {silent:.1f} s", tree)

    watcher = _Watcher(report, stalled_after, exit_after)
    threading.Thread(target=watcher.run, name="loop-watchdog", daemon=True).start()
    try:
        while True:
            watcher.beat = time.monotonic()
            await trio.sleep(stalled_after / 4)
    finally:
        watcher.done.set()


class _Watcher:
    """The watching thread, and the last heartbeat, which it shares with the loop."""

    def __init__(
        self, report: Callable[[float], None], stalled_after: float, exit_after: float | None
    ) -> None:
        self._report, self._stalled_after, self._exit_after = report, stalled_after, exit_after
        self.beat = time.monotonic()
        self.done = threading.Event()

    def run(self) -> None:
        """Check the heartbeat once per period."""
        period, stalled, looked = self._stalled_after / 4, 0.0, time.monotonic()
        while not self.done.wait(period):
            now = time.monotonic()
            if now - looked > 2 * period:  # this thread slept as well
                self.beat = max(self.beat, now)
            looked, silent = now, now - self.beat
            if silent >= self._stalled_after:
                self._handle_stall(silent, first=not stalled)
                stalled = silent
            elif stalled:
                log.warning("event loop answers again", silent_seconds=round(stalled, 1))
                stalled = 0.0

    def _handle_stall(self, silent: float, *, first: bool) -> None:
        if first:
            log.error("event loop does not answer", silent_seconds=round(silent, 1))
            try:
                self._report(silent)
            except Exception as error:  # the tree is read while it may change; the watch goes on
                log.error("report of the stall not written", error=repr(error))
        if self._exit_after is not None and silent >= self._exit_after:
            log.critical("event loop does not answer; the process ends")
            os._exit(EXIT_FAILURE)


def _append_report(path: Path, title: str, tree: str) -> None:
    fd = _open_log(path)
    try:
        os.write(fd, f"\n=== {title}: threads\n".encode())
        faulthandler.dump_traceback(fd, all_threads=True)
        os.write(fd, f"=== tasks\n{tree}\n".encode())
    finally:
        os.close(fd)


def _open_log(path: Path) -> int:
    """Open the log for appending. A log that has grown large is first renamed, over the previous one."""
    make_private_dir(path.parent)
    with suppress(FileNotFoundError):
        if path.stat().st_size > LARGEST_LOG:
            path.replace(path.with_suffix(".old"))
    return open_private(path, os.O_WRONLY | os.O_APPEND)
