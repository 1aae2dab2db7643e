"""The seam between the store and its database engine.

All statements are written in one subset of SQL, which means the same to SQLite and to PostgreSQL:

- parameters are `?`, or `?1`, `?2` where one is used twice
- a new id comes from `RETURNING`, an upsert is `ON CONFLICT`, a condition on two values `CASE`
- an order names all its columns, with `NULLS FIRST` where a value may be missing; there is no `rowid`
- flags are compared as truth values (`WHERE streamed`, `SET streamed = TRUE`), never with numbers
- `LIMIT` is never negative, and a subselect in `FROM` has a name
- text holds neither NUL nor a lone surrogate: the connection replaces both (`column_text.storable`)

Full-text search is the one thing without a common form. The schema hides it: `messages_text(words)` yields
the ids of the matching rows and their rank, smaller for a better match.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar

from ...base.world import World

T = TypeVar("T")

Answer = Callable[[], T]
"""Reads the answer to a query that was asked before. Whoever asks several before it reads the first waits for
a server once. Read it before the rows are changed."""


class Rows(Protocol):
    """The result of a statement."""

    @property
    def rowcount(self) -> int:
        """The number of rows that were changed."""

    def fetchone(self) -> Any:
        """Return the next row; None after the last one."""

    def fetchall(self) -> list[Any]:
        """Return the remaining rows."""

    def __iter__(self) -> Iterator[Any]: ...


class Db(Protocol):
    """A connection as steps and queries use it."""

    def execute(self, sql: str, parameters: Sequence[Any] = (), /) -> Rows:
        """Run one statement of the subset."""


class Listener(Protocol):
    """Hears hints that work waits, which other gateways have stored."""

    def fileno(self) -> int:
        """Return the number of its socket, which is readable when there may be a hint."""

    def heard(self) -> bool:
        """Take the hints that have arrived, without waiting, and return whether there was one. Raises
        `StoreError` if the connection is lost."""

    def close(self) -> None:
        """Hear no more."""


class Engine(Protocol):
    """The connections of an open store: one that writes, and one that only reads. Every method blocks.

    All methods are called by the writer's thread, except `read` and `close_reading` (the reader's), `listen`
    (another one) and `end_reads` (any)."""

    @property
    def writing(self) -> Db:
        """The connection that steps are given. It refuses statements that begin or end a transaction."""

    @property
    def is_remote(self) -> bool:
        """True if a statement is sent to a server with others, and fails the transaction there."""

    @property
    def path(self) -> Path:
        """The file of the database, or what stands for a server in errors."""

    @property
    def damaged_copy(self) -> Path | None:
        """The unreadable database that was set aside when this one was opened; None if there was none."""

    def begin(self) -> None:
        """Begin a transaction that may write."""

    def check(self) -> None:
        """Raise if the transaction has failed although the step that was just applied did not."""

    def commit(self) -> None:
        """Commit the transaction. Raises if it was not committed."""

    def rollback(self) -> None:
        """End the transaction, if one is open, without its changes."""

    def read(self, query: Callable[[Db], T]) -> T:
        """Return the result of `query` on one snapshot of the committed data. Its errors are translated."""

    def listen(self, life: str) -> Listener | None:
        """Open what hears hints for a life, on a thread of its own; None if no other gateway can store
        anything. Raises `StoreError`."""

    def end_reads(self) -> None:
        """Interrupt the running read; it raises `StoreClosed`."""

    def translated(self, error: BaseException) -> BaseException:
        """Return the `StoreError` for an error of the engine, with that error as its cause. A mistake of the
        caller (a constraint, a misspelt column) is returned unchanged."""

    def repair(self, error: BaseException) -> bool:
        """Repair the cause of an error. Return True if the failed operation may be repeated."""

    @property
    def is_lost(self) -> bool:
        """True if the connection that writes was lost, and its transaction with it."""

    def reconnect(self) -> None:
        """Open a lost connection again, and wait for the server meanwhile. Raises `StoreError` if it stays
        away."""

    def count_ids_on(self) -> None:
        """Let new ids follow the stored ones, after rows with ids were copied in."""

    def is_replaced(self) -> bool:
        """Return whether the files of the database were removed or replaced."""

    def save(self, world: World) -> Path:
        """Save the content of a replaced database to a new file, and return its path. Raises OSError or
        `StoreError`."""

    def close_reading(self) -> None:
        """Close the connection that reads."""

    def close_writing(self) -> None:
        """Close the connection that writes."""
