"""Commands that the agent runs: a turn's own, which end with the block they run in, and those of a
session, which run on in the background when the turn is over.

Every one of them has a row from its first moment on, so that the next life knows what to look for, and a
spool that keeps what it wrote. What runs in the background is a task under `background`: it ends by
itself, when somebody ends it, with its session, or when the gateway goes.
"""

from __future__ import annotations

import os
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import trio

from ..errors import GatewayError, StoreError
from ..host.files import make_private_dir
from ..host.groups import Process, running
from ..state import processes

if TYPE_CHECKING:
    from .gateway import Gateway

MOST = 64

Command = Sequence[str] | str

_SECRET = re.compile(r"KEY|TOKEN|SECRET|PASSW|CREDENTIAL", re.IGNORECASE)


class TooManyProcesses(GatewayError):
    """There is no room for another background process."""

    def __init__(self) -> None:
        super().__init__(f"{MOST} background processes are running. End one before you start another.")


@asynccontextmanager
async def process_of(
    gateway: Gateway, session_id: str, command: Command, *, cwd: Path | None = None, background: bool = False
) -> AsyncIterator[Process]:
    """A command of this session, for as long as the block: leaving ends the whole group of processes
    that came of it."""
    if gateway.guard is None:
        raise NotImplementedError("this gateway was opened without a guard: it starts no processes")
    process_id = gateway.world.new_id()
    spools = gateway.home / "spools"
    make_private_dir(spools)
    process = None
    try:
        async with running(
            process_id,
            command,
            cwd=cwd or Path.cwd(),
            env=command_environment(os.environ),
            spool=spools / process_id,
            guard=gateway.guard,
            ending=gateway.ending,
        ) as process:
            row = processes.Process(
                process_id,
                session_id,
                gateway.life,
                process.id.pid,
                process.id.started,
                command if isinstance(command, str) else " ".join(command),
                background=background,
                started_at=gateway.world.time(),
                spool=str(spools / process_id),
            )
            await gateway.database.write(processes.add, row)
            yield process
    finally:
        if process is not None and process.is_over:
            # What is not proven, or cannot be stored, is left to the next start, which looks for it.
            with trio.CancelScope(deadline=gateway.last_words_by(), shield=True), suppress(StoreError):
                await gateway.database.write(
                    processes.end, process_id, process.exit_code, gateway.world.time()
                )


def command_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """What a command sees of our environment: everything but what sounds like a secret."""
    return {name: value for name, value in environ.items() if not _SECRET.search(name)}


class Background:
    """The background processes there are. Lives with the `background` nursery, in which they run."""

    def __init__(self, gateway: Gateway, nursery: trio.Nursery) -> None:
        self._gateway, self._nursery = gateway, nursery
        self._scopes: dict[Process, tuple[str, trio.CancelScope]] = {}

    async def start(self, session_id: str, command: Command, *, cwd: Path | None = None) -> Process:
        """Start a command that goes on when the turn is over. Raises what `running` raises, and
        `TooManyProcesses`."""
        if len(self._scopes) >= MOST:
            raise TooManyProcesses
        process: Process = await self._nursery.start(self._run, session_id, command, cwd)
        return process

    def of(self, session_id: str) -> list[Process]:
        """Those of a session that are running, the oldest first."""
        return [process for process, (owner, _) in self._scopes.items() if owner == session_id]

    def end(self, process: Process) -> None:
        """End one of them, with all that came of it."""
        if process in self._scopes:
            self._scopes[process][1].cancel(reason="somebody ended it")

    def end_of(self, session_id: str) -> None:
        """End those of a session that ends itself."""
        for process in self.of(session_id):
            self.end(process)

    async def _run(
        self,
        session_id: str,
        command: Command,
        cwd: Path | None,
        *,
        task_status: trio.TaskStatus[Process] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        with trio.CancelScope() as scope:
            async with process_of(self._gateway, session_id, command, cwd=cwd, background=True) as process:
                self._scopes[process] = session_id, scope
                try:
                    task_status.started(process)
                    await process.wait()
                finally:
                    del self._scopes[process]
