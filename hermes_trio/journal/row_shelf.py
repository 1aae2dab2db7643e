"""Run journals as rows on a PostgreSQL server, so that the events of a run can be read from any gateway.

A row is a batch of lines, with the same bytes as in a file. Its key is the run and the seq of its first
event, so a second writer of a run is refused when it writes. A gateway whose life is over writes nothing.

The server does not flush a batch to its disk before it answers, unless the run ends with it: like a file that
is not synced it survives a killed gateway, and a crash of the server may take the last moment. It never takes
more than the end of a turn, which the server writes after it. A gateway that outlives the server writes the
last batches of its runs again, so that no run has a hole.
"""

from __future__ import annotations

import io
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import psycopg

from ..base.errors import JournalBusy, JournalError, JournalUnwritable, StoreError
from ..base.ids import path_safe_id
from ..base.world import World
from ..log import Log
from ..state.postgres.connection import KeptConnection, PostgresConnection, PostgresRows, Server
from ..state.postgres.server_errors import as_store_error
from .reader import Reading, read_lines

T = TypeVar("T")

FLUSHED_AFTER = 30.0
"""Seconds after which the server has flushed a batch: three times its longest `wal_writer_delay`."""

# The setting is that of this transaction.
_INSERT = (
    "INSERT INTO journal (run_id, first_seq, session_id, lines, written_at) SELECT ?1, ?2, ?3, ?4, ?5 "
    "WHERE set_config('synchronous_commit', ?7, TRUE) <> '' "
    "AND EXISTS (SELECT 1 FROM lives WHERE life = ?6 AND over_at IS NULL) ON CONFLICT DO NOTHING"
)

log = Log(__name__)


class RowShelf:
    """The journals of all gateways on a server; a life writes those of its own runs."""

    def __init__(self, server: Server, world: World, life: str) -> None:
        self._server, self.world, self.life = server, world, life
        self._writing = KeptConnection(server, "journal writer")
        self._reading = KeptConnection(server, "journal reader")

    def open_run(self, session_id: str, run_id: str, *, is_new: bool) -> RowRun:
        session_id, run_id = path_safe_id(session_id), path_safe_id(run_id, "run id")
        return RowRun(self, session_id, run_id, Reading() if is_new else self.read(session_id, run_id))

    def read(self, session_id: str, run_id: str) -> Reading:
        query = "SELECT lines FROM journal WHERE run_id = ? AND session_id = ? ORDER BY first_seq"
        rows = self._found(run_id, query, run_id, session_id)
        return read_lines(io.BytesIO(b"".join(bytes(lines) for (lines,) in rows)), session_id, run_id)

    def size(self, session_id: str, run_id: str) -> int:
        query = "SELECT coalesce(sum(length(lines)), 0) FROM journal WHERE run_id = ? AND session_id = ?"
        [(size,)] = self._found(run_id, query, run_id, session_id)
        return int(size)

    def session_ids(self) -> list[str]:
        query = "SELECT DISTINCT session_id FROM journal ORDER BY session_id"
        return [session_id for (session_id,) in self._found("*", query)]

    def runs(self, session_id: str) -> dict[str, float]:
        query = "SELECT run_id, max(written_at) FROM journal WHERE session_id = ? GROUP BY run_id"
        return dict(self._found(f"{session_id}/*", query, session_id))

    def session_of(self, run_id: str) -> str | None:
        query = "SELECT session_id FROM journal WHERE run_id = ? ORDER BY first_seq LIMIT 1"
        return next((session_id for (session_id,) in self._found(run_id, query, run_id)), None)

    def delete_runs(self, session_id: str, run_ids: Iterable[str]) -> None:
        runs, delete = list(run_ids), "DELETE FROM journal WHERE run_id = ? AND session_id = ?"

        def job(db: PostgresConnection) -> None:
            for run_id in runs:
                db.execute(delete, (run_id, session_id))

        self.write(f"{session_id}/*", job)

    def delete_session(self, session_id: str) -> None:
        delete = "DELETE FROM journal WHERE session_id = ?"
        self.write(f"{session_id}/*", lambda db: db.execute(delete, (session_id,)))

    def close(self) -> None:
        self._writing.close()
        self._reading.close()

    def write(self, run_id: str, job: Callable[[PostgresConnection], T]) -> T:
        """Perform a job on the connection that writes. It may be performed twice."""
        try:
            return self._writing.perform(job)
        except (psycopg.Error, StoreError) as error:
            ours = as_store_error(error, self._server.place)
            if not isinstance(ours, StoreError):
                raise
            raise JournalUnwritable(run_id, ours.problem, ours.remedy) from error

    def _found(self, run_id: str, query: str, *values: str) -> list[tuple[Any, ...]]:
        try:
            return self._reading.perform(lambda db: db.execute(query, values).fetchall())
        except (psycopg.Error, StoreError) as error:
            ours = as_store_error(error, self._server.place)
            if not isinstance(ours, StoreError):
                raise
            raise JournalError(run_id, ours.problem, ours.remedy) from error


class RowRun:
    """The rows of a run, for its writer."""

    def __init__(self, shelf: RowShelf, session_id: str, run_id: str, reading: Reading) -> None:
        self.session_id, self.run_id, self._shelf = session_id, run_id, shelf
        self.last_seq = reading.next_seq - 1
        self.ended = reading.terminal is not None
        self.closed = False
        self._first, self._unwritten, self._unsynced = self.last_seq + 1, b"", False
        self._unflushed = deque[tuple[int, bytes, float]]()
        """Batches that a crash of the server may take, with the time of each."""
        self._last_used: PostgresConnection | None = None

    def write(self, lines: bytes, *, sync: bool) -> None:
        self._unwritten += lines
        self._unsynced |= sync
        if not self._unwritten:
            return
        now = self._shelf.world.time()
        while self._unflushed and self._unflushed[0][2] < now - FLUSHED_AFTER:
            self._unflushed.popleft()
        self._shelf.write(self.run_id, self._insert)
        self._unflushed.append((self._first, self._unwritten, now))
        self._first += self._unwritten.count(b"\n")
        self._unwritten, self._unsynced = b"", False

    def sync(self) -> None:
        """Do nothing: the server has flushed its disk before it answered."""

    def close(self) -> None:
        if self.closed:
            return
        self.closed = True
        try:
            self.write(b"", sync=False)
        except JournalError as error:
            log.error("end of a run journal not written", error=str(error))

    def _insert(self, db: PostgresConnection) -> None:
        if db is not self._last_used:  # the former one was lost, perhaps because the server crashed
            for first, lines, _ in self._unflushed:
                self._insert_row(db, first, lines)
        self._last_used = db
        if self._insert_row(db, self._first, self._unwritten).rowcount:
            return
        key = self.run_id, self._first
        # It is there already if the answer was lost and this is the second attempt.
        there = db.execute("SELECT lines FROM journal WHERE run_id = ? AND first_seq = ?", key).fetchone()
        if there is None:
            problem = "another gateway has taken over the work of this one"
            raise JournalUnwritable(self.run_id, problem, "The gateway ends; start it again.")
        if bytes(there[0]) != self._unwritten:
            raise JournalBusy(self.run_id, "another writer has it", "Close the program that writes this run.")

    def _insert_row(self, db: PostgresConnection, first: int, lines: bytes) -> PostgresRows:
        shelf, flushed = self._shelf, "on" if self._unsynced else "off"
        row = (self.run_id, first, self.session_id, lines, shelf.world.time(), shelf.life, flushed)
        return db.execute(_INSERT, row)
