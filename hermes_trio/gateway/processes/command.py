"""Commands that the agent runs, for as long as a block.

Every one of them has a row from its first moment on, so that the next life knows what to look for, and a
spool that keeps what it wrote.
"""

from __future__ import annotations

import os
import re
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import trio

from ...base.errors import StoreError
from ...host.home.private_files import make_private_dir
from ...host.processes.process_groups import Process, running
from ...state.tables import processes

if TYPE_CHECKING:
    from ..parts import Gateway

Command = Sequence[str] | str

_SECRET = re.compile(r"KEY|TOKEN|SECRET|PASSW|CREDENTIAL", re.IGNORECASE)


@asynccontextmanager
async def process_of(
    gateway: Gateway,
    session_id: str,
    command: Command,
    *,
    cwd: Path | None = None,
    process_id: str | None = None,
    background: bool = False,
) -> AsyncIterator[Process]:
    """A command of this session, for as long as the block: leaving ends the whole group of processes
    that came of it."""
    if gateway.guard is None:
        raise NotImplementedError("this gateway was opened without a guard: it starts no processes")
    process_id = process_id or gateway.world.new_id()
    spools = gateway.home / "spools"
    make_private_dir(spools)
    process = None
    try:
        async with running(
            process_id,
            command,
            cwd=cwd or Path.cwd(),
            env=command_environment(os.environ, gateway.config.terminal.env_passthrough),
            spool=spools / process_id,
            guard=gateway.guard,
            ending=gateway.ending,
            talk=background,
        ) as process:
            row = processes.ProcessRow(
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


def command_environment(environ: Mapping[str, str], passed: Collection[str] = ()) -> dict[str, str]:
    """What a command sees of our environment: everything but what sounds like a secret, and what is passed
    all the same."""
    return {name: value for name, value in environ.items() if name in passed or not _SECRET.search(name)}
