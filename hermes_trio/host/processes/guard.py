"""The guard: a separate process that ends our process groups when we are killed.

The guard is told of a group *before* its command is started and again when the pid is known, so there is no
moment in which a command runs that the guard could not find. It reads its list from a pipe. The pipe closes
when this process ends, in whatever way, and then the guard ends every group that is not over. So it needs no
farewell message: a gateway that ended its groups leaves an empty list. (`PR_SET_PDEATHSIG` would follow the
thread that forked, and Trio's threads come and go.)

It is started before the first command, so a gateway whose agent starts nothing has none.

If the guard itself is lost, a new one is started and gets the whole list. Until then, some 20 ms or as long
as the system refuses to start one, a kill of the gateway leaves groups behind, which the next start finds. A
guard that does not read its pipe counts as lost: writing to it never waits.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import trio

from ...log import Log
from ..loop.scoped_task import beside
from . import sweep
from .lookout import Lookout

# Room for some 20,000 messages that the guard has not read yet.
PIPE_SIZE = 1 << 20
LONGEST_PAUSE = 30.0
STEADY = 60.0
LAST_SWEEP = 2.0

log = Log(__name__)


class Guard:
    """The list that the guard process has, and the view of the system that all groups share. Made by
    `open_guard`; one that was made without it keeps its list and runs no process."""

    def __init__(
        self,
        *,
        system: sweep.System = sweep.THIS_SYSTEM,
        pipe_size: int = PIPE_SIZE,
        last_sweep: float = LAST_SWEEP,
        is_kept: bool = False,
    ) -> None:
        """`is_kept` if a task runs `keep`."""
        self.system = system
        self._pipe_size, self._last_sweep = pipe_size, last_sweep
        self._groups: dict[str, str] = {}
        self._process: trio.Process | None = None
        self._pipe: int | None = None
        self._lookout = Lookout(system)
        self._is_kept, self._wanted, self._begun = is_kept, trio.Event(), trio.Event()

    @property
    def pid(self) -> int | None:
        """The pid of the guard process; None while there is none."""
        return self._process.pid if self._process else None

    @property
    def listed(self) -> tuple[str, ...]:
        """The groups that are not over."""
        return tuple(self._groups)

    async def look(self) -> sweep.ProcessTable:
        """Return a snapshot of all processes that was taken after this call."""
        return await self._lookout.look()

    async def ready(self) -> None:
        """Start the guard process, if no command has needed it yet. Return after the first attempt."""
        self._wanted.set()
        if self._is_kept:
            await self._begun.wait()

    def expect(self, group_id: str) -> None:
        """List a group whose command is about to be started with this id as its marker. The first of them
        is listed when the guard is `ready`."""
        self._note(group_id, f"group {group_id}\n")

    def started(self, group_id: str, pid: int, born: str) -> None:
        """Note the pid of the command, which runs and leads its own session."""
        self._note(group_id, f"group {group_id} {pid} {born}\n")

    def over(self, group_id: str) -> None:
        """Remove a group of which no member is alive."""
        if self._groups.pop(group_id, None) is not None:
            self._tell(f"over {group_id}\n")

    def _note(self, group_id: str, line: str) -> None:
        self._groups[group_id] = line
        self._tell(line)

    def _tell(self, line: str) -> None:
        if self._pipe is None:
            return  # the next guard gets the whole list
        try:
            os.write(self._pipe, line.encode("ascii"))  # whole or not at all: it is short
        except BlockingIOError:
            log.error("process guard does not read; starting another", pid=self.pid)
            self._drop()
        except BrokenPipeError:
            return  # `keep` is about to see its end

    def _drop(self) -> None:
        """Kill the guard process, then close its pipe: in the other order it would end our groups."""
        if self._process is not None:
            self._process.kill()
        self._close()

    def _close(self) -> None:
        if self._pipe is not None:
            os.close(self._pipe)
            self._pipe = None

    async def keep(self) -> None:
        """Start a guard process when it is wanted, and another after each that ends."""
        await self._wanted.wait()
        for pause in _pauses():
            since = trio.current_time()
            try:
                await self._start()
            except OSError as error:
                log.error("process guard not started; retrying", error=str(error), retry_in=pause)
            self._begun.set()
            if self._process is not None:
                code = await self._process.wait()
                self._close()
                log.error("process guard ended", pid=self.pid, code=code, groups=len(self._groups))
                self._process = None
            await trio.sleep(0 if trio.current_time() - since > STEADY else pause)

    async def _start(self) -> None:
        reading, writing = os.pipe()
        try:
            _make_roomy(writing, self._pipe_size)
            self._process = await trio.lowlevel.open_process(
                _command(),
                stdin=reading,
                stdout=subprocess.DEVNULL,
                cwd=Path(sys.executable).anchor,  # a guard keeps no directory busy
                env=_environment(),
                start_new_session=True,
            )
        except BaseException:
            os.close(writing)
            raise
        finally:
            os.close(reading)
        self._pipe = writing
        for line in list(self._groups.values()):
            self._tell(line)

    async def leave(self) -> None:
        """Close the pipe and wait for the guard process, which ends the groups that are still listed."""
        self._close()
        if self._process is None:
            return
        with trio.move_on_after(self._last_sweep):
            await self._process.wait()
            return
        log.error("process guard did not end in time", pid=self.pid, groups=len(self._groups))
        if not self._groups:
            self._process.kill()
            await self._process.wait()


@asynccontextmanager
async def open_guard(
    *,
    system: sweep.System = sweep.THIS_SYSTEM,
    pipe_size: int = PIPE_SIZE,
    last_sweep: float = LAST_SWEEP,
) -> AsyncIterator[Guard]:
    """Yield a guard for the groups that `running` starts in this block.

    `pipe_size` is the number of bytes that may wait for the guard process. At the end of the block the guard
    process has `last_sweep` seconds to end the groups that are still listed.
    """
    guard = Guard(system=system, pipe_size=pipe_size, last_sweep=last_sweep, is_kept=True)
    try:
        async with beside(guard.keep):
            yield guard
    finally:
        with trio.move_on_after(2 * last_sweep, shield=True):
            await guard.leave()


def _command() -> list[str]:
    # Without /proc the guard needs psutil, which is a site package.
    alone = ["-I", "-S"] if sweep.HAS_PROC else ["-I"]
    return [sys.executable, *alone, str(Path(sweep.__file__)), str(os.getpid())]


def _environment() -> dict[str, str]:
    """Return our environment without the marker. An agent's command may have started this gateway: its guard
    must outlive the end of that command for the moment that it takes to end our groups."""
    return {name: value for name, value in os.environ.items() if name != sweep.MARKER}


def _make_roomy(pipe: int, size: int) -> None:
    if os.name == "posix":
        os.set_blocking(pipe, False)
    if sys.platform == "linux":
        import fcntl

        try:
            fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, size)
        except OSError:  # this user's pipes have no more room; the usual 64 KB hold 1,500 messages
            return


def _pauses() -> Iterator[float]:
    pause = 0.0
    while True:
        yield pause
        pause = min(LONGEST_PAUSE, max(0.5, 2 * pause))
