"""The table `todos`: the agent's list of tasks in a session. It survives turns, restarts and compaction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

from ..db.column_text import read_stored
from ..db.engine import Db

Status = Literal["pending", "in_progress", "completed", "cancelled"]


class Item(msgspec.Struct, frozen=True):
    """One task."""

    id: str
    content: str
    status: Status = "pending"


_items = msgspec.json.Decoder(list[Item]).decode


def get(db: Db, session_id: str) -> list[Item]:
    """Return the list of a session, in order."""
    row = db.execute("SELECT items FROM todos WHERE session_id = ?", (session_id,)).fetchone()
    return read_stored(row[0], _items, "items", session=session_id) or [] if row else []


def put(db: Db, session_id: str, items: Sequence[Item]) -> None:
    """Replace the list of a session."""
    text = msgspec.json.encode(items).decode()
    db.execute(
        "INSERT INTO todos (session_id, items) VALUES (?, ?) "
        "ON CONFLICT (session_id) DO UPDATE SET items = excluded.items",
        (session_id, text),
    )
