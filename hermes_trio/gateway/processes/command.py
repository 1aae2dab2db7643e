"""Commands that the agent runs, each for as long as a block and in the sandbox of its session.

Each has a row from its first moment on, so that the next life can find it after a kill, a spool file with its
output, and a proxy if it was granted hosts. This module may touch the table of processes, the sandbox and
`host.processes`; it knows no turn.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import trio

from ...base.errors import StoreError
from ...config.remote_section import REMOTE
from ...config.schema import TerminalConfig
from ...host.files.private_files import make_private_dir
from ...host.loop.worker import finished
from ...host.processes.guard import Guard
from ...host.processes.process_groups import ChildProcess, running
from ...log import Log
from ...masking.command_environment import command_environment
from ...state.backup.backup_writer import backup_folder
from ...state.tables import processes
from ...tools.paths import files_of
from ...tools.sandbox.available import NO_SANDBOX, Available, choose, directory_there
from ...tools.sandbox.session_sandbox import SessionSandbox
from ...tools.sandbox.views import NOTHING, Grants, Room, login_directories
from ...tools.skill_folders import skill_places
from ..ending.shutdown import Shutdown
from ..home.open_home import Home
from .egress_proxy import Reach, open_proxy, reach

ChooseSandbox = Callable[[TerminalConfig], Available]
"""Finds the sandbox of this machine, or the place where commands run; called in a thread."""

log = Log(__name__)

Command = Sequence[str] | str


@dataclass(frozen=True, slots=True)
class CommandRunner:
    """Runs the commands of a gateway."""

    home: Home
    shutdown: Shutdown
    guard: Guard | None
    """Ends the commands if the gateway is killed; None in a gateway that starts no child process."""
    available: Available
    """The sandbox that this machine has."""
    work: Path
    """The work directory."""
    reach: Reach = reach
    """Connects the proxies of commands to hosts. Only tests hand in another one."""

    @property
    def confines(self) -> bool:
        """True if commands run in a sandbox or a container."""
        return self.available.confines

    @property
    def warning(self) -> str | None:
        """A sentence for the owner if commands run and nothing confines them, or not whole."""
        return None if self.guard is None else self.available.warning

    def sandbox(self, session_id: str) -> SessionSandbox:
        """Return the sandbox of a session."""
        home, terminal = self.home.path, self.home.config.terminal
        room = Room(
            home=home,
            work=self.work,
            scratch=scratch_of(home, session_id),
            files=files_of(home, session_id),
            readable=(*skill_places(home), *(Path(one).expanduser() for one in terminal.readable)),
            writable=tuple(Path(one).expanduser() for one in terminal.writable),
            hidden=(backup_folder(home, self.home.config),),
        )
        return SessionSandbox(self.available.kind, room, self.available.remote)

    @asynccontextmanager
    async def running(
        self,
        session_id: str,
        command: Command,
        *,
        cwd: Path,
        grants: Grants = NOTHING,
        process_id: str | None = None,
        background: bool = False,
    ) -> AsyncIterator[ChildProcess]:
        """Run a command of a session for as long as the block, in the sandbox with these grants. Leaving the
        block ends the child process and all its descendants. Raises `ProcessUnstartable`."""
        home = self.home
        process_id = process_id or home.world.new_id()
        process = None
        try:
            async with self._started(
                session_id,
                process_id,
                command,
                cwd=cwd,
                grants=grants,
                talk=background,
            ) as process:
                row = processes.ProcessRow(
                    process_id,
                    session_id,
                    home.life,
                    process.id.pid,
                    process.id.started,
                    joined(command),
                    background=background,
                    started_at=home.world.time(),
                    spool=str(self._spool(process_id)),
                )
                await home.database.write(processes.add, row)
                async with self._attended(process, cwd):
                    yield process
        finally:
            if process is not None and process.is_over:
                await self._store_end(process_id, process)  # noqa: ASYNC102 - it shields its await

    @asynccontextmanager
    async def _started(
        self,
        session_id: str,
        process_id: str,
        command: Command,
        *,
        cwd: Path,
        grants: Grants,
        talk: bool,
    ) -> AsyncIterator[ChildProcess]:
        """Run a command in the sandbox of a session, with a proxy if it was granted hosts."""
        if self.guard is None:
            raise NotImplementedError("this gateway was opened without a guard: it starts no processes")
        spool = self._spool(process_id)
        make_private_dir(spool.parent)
        environment = command_environment(os.environ, self.home.config.terminal.env_passthrough)
        async with open_proxy(process_id, grants.hosts, self.reach) as channel:
            confined = await trio.to_thread.run_sync(
                self.sandbox(session_id).confine, command, cwd, grants, channel, abandon_on_cancel=True
            )
            async with running(
                process_id,
                confined.command,
                cwd=confined.cwd,
                env={**environment, **confined.variables},
                spool=spool,
                guard=self.guard,
                ending=self.shutdown.begun,
                talk=talk,
                hear=self.available.remote is not None,
                keep_open=() if channel is None else (channel,),
            ) as process:
                yield process

    def _attended(self, process: ChildProcess, cwd: Path) -> AbstractAsyncContextManager[None]:
        """Attend to a command that runs elsewhere, from its beginning there to its end."""
        remote = self.available.remote
        return remote.attended(process, cwd, self.shutdown.begun) if remote else nullcontext()

    def _spool(self, process_id: str) -> Path:
        return self.home.path / "spools" / process_id

    async def _store_end(self, process_id: str, process: ChildProcess) -> None:
        """Store the end of a process. An end that is not proven or cannot be stored is left to the next
        start, which looks for it."""
        home, deadline = self.home, self.shutdown.last_words_deadline()
        with trio.CancelScope(deadline=deadline, shield=True), suppress(StoreError):
            await home.database.write(processes.end, process_id, process.exit_code, home.world.time())


async def open_commands(
    home: Home, shutdown: Shutdown, guard: Guard | None, choose: ChooseSandbox = choose
) -> CommandRunner:
    """Return the runner of a gateway's commands, after a look for the sandbox that this machine has. Raises
    `ConfigInvalid` if it has not the one that is configured."""
    work, available = work_directory(home.path, home.config.terminal), NO_SANDBOX
    if guard is not None:
        with home.worker("sandbox") as runner:
            available = await finished(runner, partial(choose, home.config.terminal))
            if work.is_relative_to(home.path):
                await finished(runner, partial(make_private_dir, work))
        log.info("sandbox chosen", sandbox=available.kind, work=str(work), refused=available.reasons)
        if available.trouble is not None:
            log.warning("place of commands not reached", error=available.trouble, remedy=available.remedy)
        elif not available.confines and available.remote is None:
            log.warning("commands are not confined", remedy=available.remedy)
        elif available.warning is not None:
            log.warning("protected places of the work directory exposed", remedy=available.remedy)
    return CommandRunner(home, shutdown, guard, available, work)


def work_directory(home: Path, terminal: TerminalConfig) -> Path:
    """Return the directory in which the agent works; one in a container or on a host begins with `~` if it is
    below the home directory there. The home directory of a login on this machine is not one, unless it is
    configured: programs read their settings there."""
    if terminal.sandbox in REMOTE:
        return directory_there(terminal.cwd)
    if terminal.cwd is not None:
        return Path(terminal.cwd).expanduser()
    here = Path.cwd()
    return home / "work" if any(Path(login).is_relative_to(here) for login in login_directories()) else here


def scratch_of(home: Path, session_id: str) -> Path:
    """Return the directory of a session's temporary files."""
    return home / "scratch" / session_id


def joined(command: Command) -> str:
    """Return a command as one line."""
    return command if isinstance(command, str) else " ".join(command)
