"""Commands that the agent runs, each for as long as a block.

Each has a row from its first moment on, so that the next life can find it after a kill, and a spool file with
its output. This module may touch the table of processes and `host.processes`; it knows no session and no
turn.
"""

from __future__ import annotations

import os
import re
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import trio

from ...base.errors import StoreError
from ...host.files.private_files import make_private_dir
from ...host.processes.guard import Guard
from ...host.processes.process_groups import ChildProcess, running
from ...state.tables import processes
from ..ending.shutdown import Shutdown
from ..home.open_home import Home

Command = Sequence[str] | str

_SECRET = re.compile(r"KEY|TOKEN|SECRET|PASSW|CREDENTIAL", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class CommandRunner:
    """Runs the commands of a gateway."""

    home: Home
    shutdown: Shutdown
    guard: Guard | None
    """Ends the commands if the gateway is killed; None in a gateway that starts no child process."""

    @asynccontextmanager
    async def running(
        self,
        session_id: str,
        command: Command,
        *,
        cwd: Path | None = None,
        process_id: str | None = None,
        background: bool = False,
    ) -> AsyncIterator[ChildProcess]:
        """Run a command of a session for as long as the block. Leaving the block ends the child process and
        all its descendants."""
        home = self.home
        if self.guard is None:
            raise NotImplementedError("this gateway was opened without a guard: it starts no processes")
        process_id = process_id or home.world.new_id()
        spool = home.path / "spools" / process_id
        make_private_dir(spool.parent)
        process = None
        try:
            async with running(
                process_id,
                command,
                cwd=cwd or Path.cwd(),
                env=command_environment(os.environ, home.config.terminal.env_passthrough),
                spool=spool,
                guard=self.guard,
                ending=self.shutdown.begun,
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
                    spool=str(spool),
                )
                await home.database.write(processes.add, row)
                yield process
        finally:
            if process is not None and process.is_over:
                await self._store_end(process_id, process)  # noqa: ASYNC102 - it shields its await

    async def _store_end(self, process_id: str, process: ChildProcess) -> None:
        """Store the end of a process. An end that is not proven or cannot be stored is left to the next
        start, which looks for it."""
        home, deadline = self.home, self.shutdown.last_words_deadline()
        with trio.CancelScope(deadline=deadline, shield=True), suppress(StoreError):
            await home.database.write(processes.end, process_id, process.exit_code, home.world.time())


def joined(command: Command) -> str:
    """Return a command as one line."""
    return command if isinstance(command, str) else " ".join(command)


def command_environment(environ: Mapping[str, str], passed: Collection[str] = ()) -> dict[str, str]:
    """Return the environment of a command: ours without the variables whose names sound like secrets, except
    for those that are passed on by configuration."""
    return {name: value for name, value in environ.items() if name in passed or not _SECRET.search(name)}
