"""The table `dead_chats`: chats that a person blocked, or groups that removed the bot or were deleted.

Nothing is sent to a dead chat, also after restarts, until a message arrives from it.
"""

from __future__ import annotations

from ..db.engine import Db


def mark(db: Db, platform: str, account: str, chat_id: str, *, reason: str, at: float) -> None:
    """Mark a chat as dead, and give up its open deliveries."""
    chat = (platform, account, chat_id)
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


def clear(db: Db, platform: str, account: str, chat_id: str) -> None:
    """Remove the mark of a chat: a message arrived from it."""
    db.execute(
        "DELETE FROM dead_chats WHERE platform = ? AND account = ? AND chat_id = ?",
        (platform, account, chat_id),
    )


def every(db: Db) -> list[tuple[str, str, str, str]]:
    """Return platform, account, chat and reason of every dead chat."""
    return list(db.execute("SELECT platform, account, chat_id, reason FROM dead_chats"))
