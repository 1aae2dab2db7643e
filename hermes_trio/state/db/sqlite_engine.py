"""The engine of a home: SQLite, in the file `gateway.db`."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from ...base.errors import StoreUnusable
from ...base.world import World
from ...log import Log
from .engine import Db
from .file_identity import save_copy
from .migrations import SchemaStep
from .opening import Connections, open_connections
from .search_index import is_index_damage, rebuild_index
from .sqlite_errors import as_store_error

T = TypeVar("T")

log = Log(__name__)


def open_sqlite(path: Path, world: World, steps: Sequence[SchemaStep]) -> SqliteEngine:
    """Open the file at `path`, as the table in `opening` says."""
    return SqliteEngine(path, open_connections(path, world, steps))


class SqliteEngine:
    """The two connections of an open file."""

    is_lost = is_remote = False

    def __init__(self, path: Path, opened: Connections) -> None:
        self.damaged_copy = opened.damaged_copy
        self.writing = opened.writing
        self.path, self._reading, self._files = path, opened.reading, opened.files
        self._ours = self._index_rebuilt = self._reads_end = False
        self.writing.set_authorizer(self._judge)
        # SQLite calls this from time to time during a read, so that closing interrupts a long one.
        self._reading.set_progress_handler(lambda: self._reads_end, 10_000)

    def begin(self) -> None:
        self._transaction("BEGIN IMMEDIATE")

    def check(self) -> None:
        if not self.writing.in_transaction:  # as on a full disk
            raise sqlite3.OperationalError("SQLite rolled back, and the step suppressed the error")

    def commit(self) -> None:
        self._transaction("COMMIT")

    def rollback(self) -> None:
        if self.writing.in_transaction:  # on a full disk SQLite has rolled back already
            self._transaction("ROLLBACK")

    def read(self, query: Callable[[Db], T]) -> T:
        reading = self._reading
        try:
            reading.execute("BEGIN")
            try:
                return query(reading)
            finally:
                if reading.in_transaction:
                    reading.execute("ROLLBACK")
        except sqlite3.Error as error:
            raise as_store_error(error, self.path)  # noqa: B904 - has its cause

    def listen(self, life: str) -> None:
        return None

    def end_reads(self) -> None:
        self._reads_end = True

    def translated(self, error: BaseException) -> BaseException:
        return as_store_error(error, self.path)

    def repair(self, error: BaseException) -> bool:
        """Rebuild the search index, once for each opening: while it is damaged, no message can be stored."""
        if self._index_rebuilt or not is_index_damage(error.__cause__ or error):
            return False
        self._index_rebuilt = True
        log.warning("search index damaged; rebuilding it from the messages")
        with suppress(sqlite3.Error):
            rebuild_index(self.writing)
            return True
        return False

    def reconnect(self) -> None:
        raise StoreUnusable(self.path, "has no server", "This is a bug: report it.")

    def count_ids_on(self) -> None:
        """Do nothing: SQLite looks at the stored ones itself."""

    def is_replaced(self) -> bool:
        return self._files.changed()

    def save(self, world: World) -> Path:
        try:
            return save_copy(self.writing, self._files, world)
        except sqlite3.Error as error:
            raise StoreUnusable(self.path, f"cannot be copied ({error})", "Check its disk.") from error

    def close_reading(self) -> None:
        self._reading.close()

    def close_writing(self) -> None:
        self.writing.close()

    def _transaction(self, statement: str) -> None:
        self._ours = True
        try:
            # The comment makes the text unique: a statement that SQLite has cached is not authorized again.
            self.writing.execute(statement + " -- of a batch")
        finally:
            self._ours = False

    def _judge(self, action: int, *_: object) -> int:
        """Authorize a statement for SQLite. A step that commits, as a harmless `with connection:` does,
        would commit half of its batch, and that half would be applied a second time."""
        theirs = action == sqlite3.SQLITE_TRANSACTION and not self._ours
        return sqlite3.SQLITE_DENY if theirs else sqlite3.SQLITE_OK
