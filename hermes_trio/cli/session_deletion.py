"""Delete a session while no gateway runs. The caller holds the lock of the home."""

from __future__ import annotations

from pathlib import Path

import trio

from ..base.errors import GatewayError
from ..base.world import World
from ..gateway.operations.session_removal import remove_stored
from ..host.processes.process_identity import ProcessId, is_alive
from ..journal.writer import open_journals
from ..state.db.database import open_database
from ..state.tables import processes
from ..tools.paths import remove_files


class StillRunning(GatewayError):
    """A command of the session outlived its gateway."""

    def __init__(self, pid: int) -> None:
        super().__init__(
            f"a command of this session still runs (pid {pid}); it was left by a gateway that was killed. "
            "Start the gateway and stop it, which ends the command. Then delete the session."
        )


def delete_session(home: Path, session_id: str) -> None:
    """Remove a session with its rows, its journals, its files and the output of its processes."""
    trio.run(_delete, home, session_id)


async def _delete(home: Path, session_id: str) -> None:
    world = World()
    async with (
        open_database(home / "gateway.db", world) as database,
        open_journals(home / "journal", world) as journals,
    ):
        stored = await database.read(processes.of_session, session_id)
        for process in stored:
            if process.ended_at is None and is_alive(ProcessId(process.pid, process.pid_time)):
                raise StillRunning(process.pid)
        await remove_stored(session_id, database, journals, world)
        remove_files(home, session_id)
        for process in stored:
            (home / "spools" / process.process_id).unlink(missing_ok=True)
