"""The guard: a process of its own that ends our process groups when we are killed.

It is told of a group *before* its command is started and again when the pid is known, so that there is
no moment in which a command runs that the guard could not find. It reads its list from a pipe. The
pipe closes when we end, in whatever way, and then the guard ends every group that is not over. So there
is no goodbye: a gateway that ended its groups leaves an empty list. (`PR_SET_PDEATHSIG` would follow the
thread that forked, and Trio's threads come and go.)

If the guard itself is lost, a new one is started and gets the whole list; until then, some 20 ms, or as
long as the system refuses to start one, a kill of the gateway leaves groups behind that the next
start finds. A guard that does not read counts as lost: telling it never waits.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import trio

from ...log import Log
from ..loop.scoped_task import beside
from . import sweep

# Room for some 20,000 messages that the guard has not read yet.
PIPE_SIZE = 1 << 20
LONGEST_PAUSE = 30.0
STEADY = 60.0
LAST_SWEEP = 2.0
REST = 9
LONGEST_REST = 0.05

log = Log(__name__)


class Guard:
    """What the guard process knows, and the eyes that all groups share. Made by `open_guard`."""

    def __init__(self) -> None:
        self._groups: dict[str, str] = {}
        self._process: trio.Process | None = None
        self._pipe: int | None = None
        self._lookout = Lookout()
        self.look = self._lookout.look

    @property
    def pid(self) -> int | None:
        """The guard process; None while there is none."""
        return self._process.pid if self._process else None

    @property
    def listed(self) -> tuple[str, ...]:
        """The groups that are not over."""
        return tuple(self._groups)

    def expect(self, group_id: str) -> None:
        """A command is about to be started with this id as its marker."""
        self._note(group_id, f"group {group_id}\n")

    def started(self, group_id: str, pid: int, born: str) -> None:
        """It runs, and leads a session of its own."""
        self._note(group_id, f"group {group_id} {pid} {born}\n")

    def over(self, group_id: str) -> None:
        """None of this group is alive."""
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
            log.error("the process guard does not listen; a new one is started", pid=self.pid)
            self._drop()
        except BrokenPipeError:
            return  # `keep` is about to see its end

    def _drop(self) -> None:
        """Be rid of the guard. It is killed first: a closed pipe would make it end our groups."""
        if self._process is not None:
            self._process.kill()
        self._close()

    def _close(self) -> None:
        if self._pipe is not None:
            os.close(self._pipe)
            self._pipe = None

    async def keep(self, begun: trio.Event) -> None:
        """See to it that there always is one; `begun` is set when the first is started, or was refused."""
        for pause in _pauses():
            since = trio.current_time()
            try:
                await self._start()
            except OSError as error:
                log.error("no process guard", error=str(error), retry_in=pause)
            begun.set()
            if self._process is not None:
                code = await self._process.wait()
                self._close()
                log.error("the process guard ended", pid=self.pid, code=code, groups=len(self._groups))
                self._process = None
            await trio.sleep(0 if trio.current_time() - since > STEADY else pause)

    async def _start(self) -> None:
        reading, writing = os.pipe()
        try:
            _make_roomy(writing)
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
        """Close the pipe. The guard ends what is still on its list, and then itself."""
        self._close()
        if self._process is None:
            return
        with trio.move_on_after(LAST_SWEEP):
            await self._process.wait()
            return
        log.error("the process guard goes on without us", pid=self.pid, groups=len(self._groups))
        if not self._groups:
            self._process.kill()
            await self._process.wait()


class Lookout:
    """Looks at all processes for everybody who wants to know.

    A look costs what the machine has processes, and a drain of 200 turns asks for 200 of them at a time.
    So those who ask while one is due share it, and one that took long is not followed by the next at once.
    """

    def __init__(self) -> None:
        self._turn = trio.Lock()
        self._asked = self._answered = 0
        self._next = 0.0
        self._table: sweep.ProcessTable | None = None

    async def look(self) -> sweep.ProcessTable:
        """All processes at some moment after this call."""
        self._asked += 1
        mine = self._asked
        async with self._turn:
            if self._table is None or self._answered < mine:
                await trio.sleep_until(self._next)
                self._answered = self._asked
                begun = trio.current_time()
                self._table = await self._looked()
                now = trio.current_time()
                self._next = now + min(LONGEST_REST, REST * (now - begun))
            return self._table

    async def _looked(self) -> sweep.ProcessTable:
        """Tried again while the machine has no descriptor left; whoever waits has a deadline."""
        while True:
            with suppress(OSError):
                return sweep.look()
            await trio.sleep(LONGEST_REST)


@asynccontextmanager
async def open_guard() -> AsyncIterator[Guard]:
    """A guard for the groups of this block, which `running` tells it of."""
    guard = Guard()
    begun = trio.Event()
    try:
        async with beside(lambda: guard.keep(begun)):
            await begun.wait()
            yield guard
    finally:
        with trio.move_on_after(2 * LAST_SWEEP, shield=True):
            await guard.leave()


def _command() -> list[str]:
    # Without /proc it is psutil that looks, which has to be found.
    alone = ["-I", "-S"] if sweep.HAS_PROC else ["-I"]
    return [sys.executable, *alone, str(Path(sweep.__file__)), str(os.getpid())]


def _environment() -> dict[str, str]:
    """Ours, without the marker: where an agent's command started this gateway, its guard must outlive
    the end of that command by the moment that it takes to end our groups."""
    return {name: value for name, value in os.environ.items() if name != sweep.MARKER}


def _make_roomy(pipe: int) -> None:
    if os.name == "posix":
        os.set_blocking(pipe, False)
    if sys.platform == "linux":
        import fcntl

        try:
            fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, PIPE_SIZE)
        except OSError:  # the user's pipes are full already; the usual 64 KB hold 1,500 messages
            return


def _pauses() -> Iterator[float]:
    pause = 0.0
    while True:
        yield pause
        pause = min(LONGEST_PAUSE, max(0.5, 2 * pause))
