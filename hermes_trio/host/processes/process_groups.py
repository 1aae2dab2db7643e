"""A command and all that comes of it live as long as a block.

    async with running(["make", "test"], ..., guard=guard, ending=ending) as process:
        code = await process.wait()

The command leads a session of its own. Leaving the block in any way ends every member of the group: TERM,
KILL to who is there after two seconds, and then a look at all processes that proves that none is alive.
While the gateway is ending nobody gets the two seconds. A command that has ended by itself is not waited
for (not *reaped*) until then: its number cannot go to a stranger while we may still have to signal it.

Who counts as a member, and who is not found, is said in `sweep`.
"""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import trio

from ...base.errors import GatewayError
from ...base.ids import path_safe_id
from ...log import Log
from ..loop.scoped_task import beside
from ..loop.worker import Runner, finished, worker_thread
from . import sweep
from .guard import Guard
from .process_identity import ProcessId, boot_epoch
from .spool import Output, Spool

# While the gateway is ending there is no patience, and the rest is the two seconds of a cut turn.
PATIENCE = 2.0
PROOF = 1.0
LAST_WORDS = 0.5
CAN_PEEK = hasattr(os, "waitid") and hasattr(os, "pidfd_open")

_OF_ITS_OWN: dict[str, Any] = {"start_new_session": True}
if sys.platform == "win32":  # pragma: no cover
    _OF_ITS_OWN = {"creationflags": subprocess.CREATE_NEW_PROCESS_GROUP}

Look = Callable[[], Awaitable[sweep.ProcessTable]]

log = Log(__name__)


class ProcessUnstartable(GatewayError):
    """A command that could not be started; nothing of it runs."""

    def __init__(self, command: str, problem: str, remedy: str) -> None:
        super().__init__(f"{command}: {problem}. {remedy}")
        self.command, self.problem, self.remedy = command, problem, remedy


class CommandNotFound(ProcessUnstartable):
    pass


class NotExecutable(ProcessUnstartable):
    pass


class DirectoryUnusable(ProcessUnstartable):
    pass


class SpoolUnwritable(ProcessUnstartable):
    pass


class ChildProcess:
    """A command that runs, or has run, with everything that came of it."""

    def __init__(self, child: trio.Process, group: sweep.ProcessGroup, output: Output) -> None:
        self._child, self._group = child, group
        self._ended = trio.Event()
        self.output = output
        self.is_over = False
        """It is proven that none of the group is alive."""
        self.exit_code: int | None = None
        """Of the command itself; minus the number of the signal that ended it; None while it runs."""
        born = float(group.born or 0)
        self.id = ProcessId(child.pid, born, boot_epoch())
        """Names this process for as long as anything may have to find it."""

    @property
    def stdin(self) -> trio.abc.SendStream | None:
        """What the command reads, if it was started to be talked to."""
        return self._child.stdin

    @property
    def stdout(self) -> trio.abc.ReceiveStream | None:
        """What it says, if it was started to be heard: then `output` is what it complains of."""
        return self._child.stdout

    async def wait(self) -> int | None:
        """Wait until the command itself has ended and what it wrote has been read; its exit code, None
        where nobody could see it."""
        await self._ended.wait()
        await self.output.settled()
        return self.exit_code

    async def _attend(self) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.output.pump)
            self._note_end(await _ended(self._child))

    def _note_end(self, code: int | None) -> None:
        self.exit_code = code
        self._ended.set()

    async def _end(self, look: Look, ending: trio.Event) -> None:
        """End the group and have its last words."""
        async with beside(self.output.pump):  # who is asked to end may have to say something first
            self.is_over = await end_group(self._group, look, ending)
            with trio.move_on_after(LAST_WORDS):
                await self.output.settled()
        with trio.move_on_after(LAST_WORDS):
            await self.output.close()

    async def _reap(self) -> None:
        """Have the command's end, which its number is kept for until here."""
        if not self.is_over and CAN_PEEK:
            self._group.signal_whole(sweep.KILL)  # blindly, the last we can do; its number is still ours
        if self._child.poll() is None:  # it is on its way out
            await self._child.wait()

    def _let_go(self) -> None:
        """Close what we hold of the command."""
        code = self._child.returncode
        self.output.stop()
        if not self._ended.is_set():
            self._note_end(code)
        for stream in (self._child.stdin, self._child.stdout, self._child.stderr):
            if stream is not None:
                stream.close()  # type: ignore[union-attr]  # Trio's for processes all have it, and need no await


@asynccontextmanager
async def running(
    group_id: str,
    command: Sequence[str] | str,
    *,
    cwd: Path,
    env: Mapping[str, str],
    spool: Path,
    guard: Guard,
    ending: trio.Event,
    talk: bool = False,
    hear: bool = False,
) -> AsyncIterator[ChildProcess]:
    """Run a command (a text is for the shell) in `cwd` with this environment and nothing of ours.

    `group_id` is unique for all gateways of this machine and is the marker that members are found by.
    What it writes goes to `spool`; with `talk` it can be written to, with `hear` its stdout is the caller's
    to read and only its stderr is spooled. `ending` is set when the gateway ends. Raises
    `ProcessUnstartable`, before the block. A member that nothing can end (it hangs in the kernel, it is
    another user's) is logged, and stays on the list of the guard.
    """
    path_safe_id(group_id, "process id")
    file = Spool(spool)
    with worker_thread(f"spool {group_id}") as runner:
        guard.expect(group_id)
        process = None
        try:
            await _open_spool(file, command, runner)
            child = await _start(command, cwd, {**env, sweep.MARKER: group_id}, talk, hear)
            # No checkpoint from here to the `finally` that ends it.
            group = sweep.ProcessGroup(group_id, child.pid, sweep.born(child.pid) or "")
            guard.started(group_id, child.pid, group.born or "?")
            written = child.stderr if hear else child.stdout
            assert written is not None  # noqa: S101 - `_start` made a pipe
            process = ChildProcess(child, group, Output(written, file, runner))
            try:
                async with beside(process._attend):
                    yield process
            finally:
                patience = 0 if ending.is_set() else PATIENCE
                with trio.move_on_after(patience + PROOF + 2 * LAST_WORDS, shield=True):
                    await process._end(guard.look, ending)
                with trio.move_on_after(LAST_WORDS, shield=True):
                    await process._reap()
                process._let_go()
        finally:
            runner(file.remove if process is None else file.close, lambda _: None)
            if process is None or process.is_over:
                guard.over(group_id)
            else:
                log.error("a process group could not be ended", group=group_id, command=_name(command))


async def end_group(group: sweep.ProcessGroup, look: Look, ending: trio.Event) -> bool:
    """End every member of a group; True is the proof that none is alive."""
    members = group.living(table := await look())
    if not members:
        return True
    group.signal(sweep.TERM, members, table)
    with trio.move_on_after(PATIENCE) as patience:
        async with beside(partial(_hurry, patience, ending)):
            await _gone(group, look, sweep.TERM)
            return True
    with trio.move_on_after(PROOF):
        await _gone(group, look, sweep.KILL)
        return True
    return False


async def _hurry(patience: trio.CancelScope, ending: trio.Event) -> None:
    await ending.wait()
    patience.cancel(reason="the gateway is ending")


async def _gone(group: sweep.ProcessGroup, look: Look, number: int) -> None:
    """Send the signal to every member, also to those who appear meanwhile, until there is none."""
    while members := group.living(table := await look()):
        group.signal(number, members, table)
        for one in members:
            await _death(one.pid)


async def _death(pid: int) -> None:
    """Wait until this process is dead; where the system does not tell, a moment. So look again."""
    try:
        fd = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    except (AttributeError, OSError):  # not Linux; no descriptor is left
        await trio.sleep(sweep.LOOK_EVERY)
        return
    try:
        await trio.lowlevel.wait_readable(fd)
    finally:
        os.close(fd)


async def _ended(child: trio.Process) -> int | None:
    """Wait for the end of a command, if possible without reaping it."""
    if not CAN_PEEK:
        return await child.wait()
    while True:
        try:
            info = _peek(child.pid)
        except ChildProcessError:  # somebody else in this program reaps what is not theirs
            return None
        if info is not None:
            return info.si_status if info.si_code == os.CLD_EXITED else -info.si_status
        await _death(child.pid)


def _peek(pid: int) -> os.waitid_result | None:
    """How a child ended, without reaping it; None while it runs."""
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)


async def _open_spool(file: Spool, command: Sequence[str] | str, runner: Runner) -> None:
    try:
        await finished(runner, file.open)
    except OSError as error:
        problem = f"its output cannot be stored in {file.path.parent} ({error.strerror})"
        raise SpoolUnwritable(_name(command), problem, "Free the disk or repair the directory") from error


async def _start(
    command: Sequence[str] | str, cwd: Path, env: Mapping[str, str], talk: bool, hear: bool
) -> trio.Process:
    try:
        return await trio.lowlevel.open_process(
            command,
            shell=isinstance(command, str),
            # What people and models write for a shell is written for this one.
            executable=shutil.which("bash") if isinstance(command, str) and os.name == "posix" else None,
            cwd=cwd,
            env=env,
            stdin=subprocess.PIPE if talk else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE if hear else subprocess.STDOUT,
            **_OF_ITS_OWN,
        )
    except (OSError, ValueError) as error:
        raise _translated(error, _name(command), cwd) from error


def _translated(error: OSError | ValueError, name: str, cwd: Path) -> ProcessUnstartable:
    if isinstance(error, ValueError):
        return ProcessUnstartable(
            name, f"cannot be started ({error})", "Remove the characters it cannot have"
        )
    reason = error.strerror or str(error)
    if error.filename in (cwd, str(cwd)):
        return DirectoryUnusable(name, f"cannot work in {cwd} ({reason})", "Choose a directory that exists")
    if isinstance(error, FileNotFoundError):
        remedy = "Install it, give its full path, or repair the first line of the script"
        return CommandNotFound(name, "there is no such command", remedy)
    if isinstance(error, PermissionError) or error.errno == errno.ENOEXEC:
        remedy = "Make it executable (chmod +x), or name the interpreter that runs it"
        return NotExecutable(name, f"cannot be executed ({reason})", remedy)
    return ProcessUnstartable(name, f"cannot be started ({reason})", "End other processes or shorten it")


def _name(command: Sequence[str] | str) -> str:
    """What to call a command in messages. Not all of it: arguments hold secrets."""
    return "shell command" if isinstance(command, str) else command[0]
