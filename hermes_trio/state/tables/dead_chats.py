"""Chats that are gone: a person blocked us, a group threw us out or was deleted.

Nothing is sent there any more, over restarts too, until somebody is heard from there.
"""

from __future__ import annotations

import sqlite3

from ..db.column_text import storable


def mark(
    db: sqlite3.Connection, platform: str, account: str, chat_id: str, *, reason: str, at: float
) -> None:
    """Remember that a chat is gone, and give up what is owed to it."""
    chat, reason = (platform, account, chat_id), storable(reason)
    db.execute(
        "INSERT INTO dead_chats (platform, account, chat_id, reason, marked_at) VALUES (?, ?, ?, ?, ?) "
        "ON CONFLICT DO NOTHING",
        (*chat, reason, at),
    )
    db.execute(
        "UPDATE outbox SET state = 'given_up', error = ?, done_at = ? "
        "WHERE platform = ? AND account = ? AND chat_id = ? AND done_at IS NULL",
        (f"the chat is gone: {reason}", at, *chat),
    )


def clear(db: sqlite3.Connection, platform: str, account: str, chat_id: str) -> None:
    """Somebody was heard from there."""
    db.execute(
        "DELETE FROM dead_chats WHERE platform = ? AND account = ? AND chat_id = ?",
        (platform, account, chat_id),
    )


def every(db: sqlite3.Connection) -> list[tuple[str, str, str, str]]:
    """All of them: platform, account, chat, and why it is gone."""
    return list(db.execute("SELECT platform, account, chat_id, reason FROM dead_chats"))
