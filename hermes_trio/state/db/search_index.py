"""The full-text index of the transcript: detecting its damage, and rebuilding it.

The index `messages_text` holds nothing that the table `messages` does not hold too. The owner of the database
rebuilds it, so this is the one place in `db` that knows the name of a table.
"""

from __future__ import annotations

import sqlite3

from .sqlite_errors import code_of


def is_index_damage(error: BaseException) -> bool:
    """Return whether SQLite reports damage of the search index, which can be rebuilt, and not of the rows."""
    return code_of(error) == sqlite3.SQLITE_CORRUPT_VTAB


def rebuild_index(db: sqlite3.Connection) -> None:
    """Rebuild the index from the rows."""
    rebuild = "INSERT INTO messages_text (messages_text) VALUES ('rebuild')"
    try:
        db.execute(rebuild)
    except sqlite3.DatabaseError:
        # The record that lists the parts of the index is damaged too: reset it to an empty list.
        db.execute("REPLACE INTO messages_text_data (id, block) VALUES (10, x'00000000000000')")
        db.execute(rebuild)
