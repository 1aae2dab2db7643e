"""A command whose whole process group lives as long as a block.

    async with running(["make", "test"], ..., guard=guard, ending=ending) as process:
        code = await process.wait()

The command leads its own session. Leaving the block in any way ends every member of the group: TERM, KILL to
the members that are alive after two seconds, and then a look at all processes that proves that none is left.
While the gateway is ending, KILL follows at once. A command that has ended is not reaped before the block is
left: its pid cannot be reused while we may still have to signal it.

`sweep` defines the members of a group, and names the processes that are not found.
"""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
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
from .spool import OpenFile, Output, Spool, open_spool_file

_OWN_SESSION: dict[str, Any] = {"start_new_session": True}
if sys.platform == "win32":  # pragma: no cover
    _OWN_SESSION = {"creationflags": subprocess.CREATE_NEW_PROCESS_GROUP}

Look = Callable[[], Awaitable[sweep.ProcessTable]]
"""Returns a snapshot of all processes that was taken after the call."""

log = Log(__name__)


@dataclass(frozen=True, slots=True)
class Patience:
    """Seconds for each step of ending a process group.

    While the gateway is ending, the first step is left out: the rest fits into the two seconds that a cut
    turn has.
    """

    after_term: float = 2.0
    """From TERM to KILL."""
    after_kill: float = 1.0
    """From KILL to the proof that no member is alive."""
    last_words: float = 0.5
    """For reading the last output, for closing its file, and for reaping the command; each may take as
    long."""


PATIENCE = Patience()


class ProcessUnstartable(GatewayError):
    """A command that could not be started; no process of it runs."""

    def __init__(self, command: str, problem: str, remedy: str) -> None:
        super().__init__(f"{command}: {problem}. {remedy}")
        self.command, self.problem, self.remedy = command, problem, remedy


class CommandNotFound(ProcessUnstartable):
    """There is no such program, or a script names an interpreter that is missing."""


class NotExecutable(ProcessUnstartable):
    """The file exists and cannot be executed."""


class DirectoryUnusable(ProcessUnstartable):
    """The working directory is missing, or is no directory."""


class SpoolUnwritable(ProcessUnstartable):
    """The file for the output cannot be made."""


class ChildProcess:
    """A command that runs or has run, with its process group and its output."""

    def __init__(self, child: trio.Process, group: sweep.ProcessGroup, output: Output) -> None:
        self._child, self._group = child, group
        self._ended = trio.Event()
        self.output = output
        self.is_over = False
        """True once it is proven that no member of the group is alive."""
        self.exit_code: int | None = None
        """The exit code of the command itself; minus the number of the signal that ended it; None while it
        runs."""
        born = float(group.born or 0)
        self.id = ProcessId(child.pid, born, boot_epoch())
        """Identifies the command's process, also after its pid was reused."""

    @property
    def group_id(self) -> str:
        """The id of its process group."""
        return self._group.id

    @property
    def stdin(self) -> trio.abc.SendStream | None:
        """The command's standard input, if it was started with `talk`."""
        return self._child.stdin

    @property
    def stdout(self) -> trio.abc.ReceiveStream | None:
        """The command's standard output, if it was started with `hear`; then `output` is its standard
        error."""
        return self._child.stdout

    def ask_to_end(self) -> None:
        """Send TERM to the command itself. Its descendants are ended when its block is left."""
        if self.exit_code is None:
            with suppress(OSError):
                self._group.system.signal(self.id.pid, sweep.TERM)  # not reaped, so the pid is its own

    async def wait(self) -> int | None:
        """Wait until the command itself has ended and its output so far was read. Return its exit code, or
        None if another part of this program reaped it."""
        await self._ended.wait()
        await self.output.settled()
        return self.exit_code

    async def _attend(self) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.output.pump)
            self._note_end(await _wait_for_end(self._child, self._group.system))

    def _note_end(self, code: int | None) -> None:
        self.exit_code = code
        self._ended.set()

    async def _leave(self, look: Look, ending: trio.Event, patience: Patience) -> None:
        """End the group, reap the command and close our ends of its pipes, whatever hangs and even if this
        task is cancelled."""
        first = 0 if ending.is_set() else patience.after_term
        longest = first + patience.after_kill + 2 * patience.last_words
        with trio.move_on_after(longest, shield=True):
            await self._end(look, ending, patience)
        with trio.move_on_after(patience.last_words, shield=True):
            await self._reap()
        self._close()

    async def _end(self, look: Look, ending: trio.Event, patience: Patience) -> None:
        """End the group and read its last output."""
        async with beside(self.output.pump):  # a program that is asked to end may write something first
            self.is_over = await end_group(self._group, look, ending, patience)
            with trio.move_on_after(patience.last_words):
                await self.output.settled()
        with trio.move_on_after(patience.last_words):
            await self.output.close()

    async def _reap(self) -> None:
        """Reap the command, whose pid was reserved for us until now."""
        if not self.is_over and self._group.system.can_peek:
            # The last resort, without a look: the pid is still ours.
            self._group.signal_whole(self._group.system.kill_signal)
        if self._child.poll() is None:  # it is about to end
            await self._child.wait()

    def _close(self) -> None:
        """Close our ends of the command's pipes, and let `wait` return."""
        code = self._child.returncode
        self.output.stop()
        if not self._ended.is_set():
            self._note_end(code)
        for stream in (self._child.stdin, self._child.stdout, self._child.stderr):
            if stream is not None:
                stream.close()  # type: ignore[union-attr]  # all process streams of Trio have it; needs no await


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
    keep_open: Sequence[int] = (),
    patience: Patience = PATIENCE,
    open_file: OpenFile = open_spool_file,
) -> AsyncIterator[ChildProcess]:
    """Run a command in `cwd` with exactly this environment. A string is a command line for the shell.

    `group_id` is unique among all gateways of this machine and is the marker by which members are found. The
    output goes to the file `spool`. With `talk` the caller can write to the command; with `hear` its stdout
    is the caller's to read and only its stderr goes to the file. The descriptors `keep_open` stay open in the
    command. `ending` is set when the gateway ends.
    Raises `ProcessUnstartable`, before the block. A member that cannot be ended (it hangs in the kernel, it
    is another user's) is logged, and stays on the list of the guard.
    """
    path_safe_id(group_id, "process id")
    file = Spool(spool, open_file)
    with worker_thread(f"spool {group_id}") as runner:
        await guard.ready()
        guard.expect(group_id)
        process = None
        try:
            await _open_spool(file, command, runner)
            child = await _start(command, cwd, {**env, sweep.MARKER: group_id}, talk, hear, keep_open)
            # No checkpoint from here to the `finally` that ends it.
            group = _started_group(group_id, child.pid, guard)
            written = child.stderr if hear else child.stdout
            assert written is not None  # noqa: S101 - `_start` made a pipe
            process = ChildProcess(child, group, Output(written, file, runner))
            try:
                async with beside(process._attend):
                    yield process
            finally:
                await process._leave(guard.look, ending, patience)  # noqa: ASYNC102 - it shields its awaits
        finally:
            runner(file.remove if process is None else file.close, lambda _: None)
            if process is None or process.is_over:
                guard.over(group_id)
            else:
                log.error("process group not ended", group=group_id, command=_name_of(command))


async def end_group(
    group: sweep.ProcessGroup, look: Look, ending: trio.Event, patience: Patience = PATIENCE
) -> bool:
    """End every member of a group. Return True if it is proven that none is alive."""
    members = group.living(table := await look())
    if not members:
        return True
    group.signal(sweep.TERM, members, table)
    with trio.move_on_after(patience.after_term) as polite:
        async with beside(partial(cut_at_ending, polite, ending)):
            await _signal_until_gone(group, look, sweep.TERM)
            return True
    with trio.move_on_after(patience.after_kill):
        await _signal_until_gone(group, look, group.system.kill_signal)
        return True
    return False


async def cut_at_ending(polite: trio.CancelScope, ending: trio.Event) -> None:
    """End a polite step when the gateway ends."""
    await ending.wait()
    polite.cancel(reason="the gateway is ending")


async def _signal_until_gone(group: sweep.ProcessGroup, look: Look, number: int) -> None:
    """Send the signal to every member, also to members that appear meanwhile, until there is none."""
    while members := group.living(table := await look()):
        group.signal(number, members, table)
        for one in members:
            await _wait_for_death(one.pid)


async def _wait_for_death(pid: int) -> None:
    """Wait until this process is dead or, where the system cannot tell, a moment. The caller looks again."""
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


async def _wait_for_end(child: trio.Process, system: sweep.System) -> int | None:
    """Wait for the end of a command, if possible without reaping it. Return its exit code."""
    if not system.can_peek:
        return await child.wait()
    while True:
        try:
            info = _peek(child.pid)
        except ChildProcessError:  # another part of this program has reaped it
            return None
        if info is not None:
            return info.si_status if info.si_code == os.CLD_EXITED else -info.si_status
        await _wait_for_death(child.pid)


def _peek(pid: int) -> os.waitid_result | None:
    """Return how a child ended, without reaping it; None while it runs."""
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)


async def _open_spool(file: Spool, command: Sequence[str] | str, runner: Runner) -> None:
    try:
        await finished(runner, file.open)
    except OSError as error:
        problem = f"its output cannot be stored in {file.path.parent} ({error.strerror})"
        raise SpoolUnwritable(_name_of(command), problem, "Free the disk or repair the directory") from error


async def _start(
    command: Sequence[str] | str,
    cwd: Path,
    env: Mapping[str, str],
    talk: bool,
    hear: bool,
    keep_open: Sequence[int],
) -> trio.Process:
    try:
        return await trio.lowlevel.open_process(
            command,
            shell=isinstance(command, str),
            # People and models write their command lines for bash.
            executable=shutil.which("bash") if isinstance(command, str) and os.name == "posix" else None,
            cwd=cwd,
            env=env,
            stdin=subprocess.PIPE if talk else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE if hear else subprocess.STDOUT,
            pass_fds=keep_open,
            **_OWN_SESSION,
        )
    except (OSError, ValueError) as error:
        raise _unstartable(error, _name_of(command), cwd) from error


def _started_group(group_id: str, pid: int, guard: Guard) -> sweep.ProcessGroup:
    """Return the group of a command that was just started, and tell the guard."""
    group = sweep.ProcessGroup(group_id, pid, guard.system.born(pid) or "", guard.system)
    guard.started(group_id, pid, group.born or "?")
    return group


def _unstartable(error: OSError | ValueError, name: str, cwd: Path) -> ProcessUnstartable:
    if isinstance(error, ValueError):
        return ProcessUnstartable(
            name, f"cannot be started ({error})", "Remove the characters that no command may contain"
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


def _name_of(command: Sequence[str] | str) -> str:
    """Return a name of the command for messages, without its arguments: they may hold secrets."""
    return "shell command" if isinstance(command, str) else command[0]
