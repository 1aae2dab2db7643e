"""The place of the run journals: files in the home, or rows on a server that several gateways share.

All methods block. `open_run`, the methods of an `OpenRun` and the deletions are called by the thread that
writes, the others by the one that reads.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from .reader import Reading


class OpenRun(Protocol):
    """The journal of a run, open for its one writer."""

    run_id: str
    session_id: str
    last_seq: int
    """The seq of the last event when it was opened."""
    ended: bool
    """True if that event was the last one of the run."""
    closed: bool

    def write(self, lines: bytes, *, sync: bool) -> None:
        """Append complete lines; with `sync` they survive a crash of the machine after the next call of that.
        Raises `JournalError`; then the next write writes them first."""

    def sync(self) -> None:
        """Make durable what has to be. Called on any thread, while the one that writes waits. Raises
        `JournalError`."""

    def close(self) -> None:
        """Close it, if it is open, after a last attempt to write what could not be written before."""


class Shelf(Protocol):
    """All journals of a home or of a server. Each method may raise `JournalError`."""

    def open_run(self, session_id: str, run_id: str, *, is_new: bool) -> OpenRun:
        """Open the journal of a run for writing; `is_new` if it has none. Raises `JournalBusy` for a second
        writer, perhaps not before the first write."""

    def read(self, session_id: str, run_id: str) -> Reading:
        """Return the current content of a journal; an empty one if there is none."""

    def size(self, session_id: str, run_id: str) -> int:
        """Return the size of a journal in bytes; 0 if there is none."""

    def session_ids(self) -> list[str]:
        """Return the ids of the sessions with journals."""

    def runs(self, session_id: str) -> dict[str, float]:
        """Return the run ids of the journals of a session, with the time of the last write to each."""

    def session_of(self, run_id: str) -> str | None:
        """Return the session of a run; None if it has no journal."""

    def delete_runs(self, session_id: str, run_ids: Iterable[str]) -> None:
        """Delete the journals of ended runs."""

    def delete_session(self, session_id: str) -> None:
        """Delete all journals of a session."""

    def close(self) -> None:
        """Close what is open. Nothing is called afterwards."""
