"""Copying a whole store from one engine to another while no gateway uses either of them.

Both have the same tables, which the same schema steps have made. The copy is one transaction of the target,
and it is committed only if each table has as many rows as in the source.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

from ..base.errors import GatewayError
from .db.engine import Db

TABLES = (
    *("meta", "sessions", "turns", "messages", "inbox", "outbox", "dead_chats", "processes", "approvals"),
    *("pairing_requests", "paired", "pairing_mistakes", "endings", "compactions", "todos", "logins", "lives"),
    *("chats", "roles", "told", "journal", "jobs"),
)
"""All tables, each after those that it refers to."""
_AT_ONCE = 500
_TRUTH_VALUE = 16
"""The type of a flag on a server; a file has numbers."""


class NotCopied(GatewayError):
    """The store was not copied. The target is as it was before."""


def copy_rows(source: Db, target: Db, tables: Sequence[str] = TABLES) -> dict[str, int]:
    """Copy all rows of the tables, and return their numbers. The caller commits. Raises `NotCopied` if the
    target is in use or has other numbers afterwards."""
    for table in ("sessions", "inbox", "turns"):
        if _count(target, table):
            raise NotCopied(
                "The target has conversations already, and nothing was copied. Copy into an empty store: "
                "another database.schema, or a home without gateway.db."
            )
    for table in reversed(tables):
        target.execute(f"DELETE FROM {table}")  # noqa: S608 - a table of ours
    copied = {table: _copy(source, target, table) for table in tables}
    for table, expected in copied.items():
        if (found := _count(target, table)) != expected:
            problem = f"{table} has {found} rows in the copy instead of {expected}"
            raise NotCopied(f"{problem}. Nothing was copied; report this.")
    return copied


def _copy(source: Db, target: Db, table: str) -> int:
    described: Any = target.execute(f"SELECT * FROM {table} LIMIT 0")  # noqa: S608
    names = [column[0] for column in described.description]
    flags = [column[1] == _TRUTH_VALUE for column in described.description]
    insert = f"INSERT INTO {table} ({', '.join(names)}) VALUES ({', '.join('?' * len(names))})"  # noqa: S608
    number = 0
    for row in _rows(source, table, names):
        target.execute(insert, [bool(one) if flag else one for one, flag in zip(row, flags, strict=True)])
        number += 1
    return number


def _rows(source: Db, table: str, names: Sequence[str]) -> Iterator[Sequence[Any]]:
    """Yield the rows of a table in an order in which a turn comes after the one that it resumes."""
    order = "turn_id" if table == "turns" else names[0]
    rows = iter(source.execute(f"SELECT {', '.join(names)} FROM {table} ORDER BY {order}"))  # noqa: S608
    while batch := list(islice(rows, _AT_ONCE)):
        yield from batch


def _count(db: Db, table: str) -> int:
    return int(db.execute(f"SELECT count(*) FROM {table}").fetchone()[0])  # noqa: S608
