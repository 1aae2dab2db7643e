"""Run journals as files: one directory for each session, one file for each run."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from .reader import Reading, journals_here, read_run, runs_here, unreadable
from .record import journal_path, session_path
from .run_file import RunFile, unwritable


@dataclass(frozen=True, slots=True)
class FileShelf:
    """The journals below a directory."""

    root: Path

    def open_run(self, session_id: str, run_id: str, *, is_new: bool) -> RunFile:
        return RunFile(journal_path(self.root, session_id, run_id), session_id, run_id)

    def read(self, session_id: str, run_id: str) -> Reading:
        return read_run(self.root, session_id, run_id)

    def size(self, session_id: str, run_id: str) -> int:
        try:
            return journal_path(self.root, session_id, run_id).stat().st_size
        except FileNotFoundError:
            return 0
        except OSError as error:
            raise unreadable(run_id, error) from error

    def session_ids(self) -> list[str]:
        """Return the ids of the sessions that have a journal directory, even an empty one."""
        return journals_here(self.root)

    def runs(self, session_id: str) -> dict[str, float]:
        return runs_here(self.root, session_id)

    def session_of(self, run_id: str) -> str | None:
        return next((path.parent.name for path in self.root.glob(f"*/{run_id}.jsonl")), None)

    def delete_runs(self, session_id: str, run_ids: Iterable[str]) -> None:
        """Delete the journals of ended runs, and the directory if it is empty then."""
        try:
            for path in [journal_path(self.root, session_id, run_id) for run_id in run_ids]:
                path.unlink(missing_ok=True)
            with suppress(OSError):  # not empty, or already deleted
                session_path(self.root, session_id).rmdir()
        except OSError as error:
            raise unwritable(f"{session_id}/*", error) from error

    def delete_session(self, session_id: str) -> None:
        directory = session_path(self.root, session_id)
        try:
            if directory.exists():
                shutil.rmtree(directory)
        except OSError as error:
            raise unwritable(f"{session_id}/*", error) from error

    def close(self) -> None:
        """Do nothing: each file is closed with its run."""
