"""The table `outbox`: messages owed to chats, and the state of their delivery.

A row is committed in the transaction that causes the message. The attempt is recorded before the send, and
the receipt after it. So a row that is *attempting* at a start is a send with an unknown outcome, and a row
that is *owed* was not sent.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple

from ..db.engine import Db


class OutboxState(StrEnum):
    """The progress of a delivery."""

    OWED = "owed"
    ATTEMPTING = "attempting"
    SENT = "sent"
    GIVEN_UP = "given_up"


@dataclass(frozen=True, slots=True)
class Owed:
    """A message to be sent to a chat. The body is JSON that only the lane reads; a platform that can
    deduplicate is given the delivery key."""

    delivery_key: str
    platform: str
    account: str
    chat_id: str
    body: str
    thread_id: str | None = None
    reply_to: str | None = None
    session_id: str | None = None
    turn_id: int | None = None


@dataclass(frozen=True, slots=True)
class OutboxRow:
    """One row of the outbox."""

    outbox_id: int
    owed: Owed
    created_at: float
    state: OutboxState
    attempts: int
    attempted_at: float | None
    receipt: str | None
    error: str | None


class Streamed(NamedTuple):
    """The state of a streamed message."""

    is_lost: bool
    """Its send has an unknown outcome."""
    message_id: str | None
    """The id that the platform gave it, if known."""
    sent_at: float | None
    """The time of the first send that may have arrived."""
    attempts: int
    """The number of attempts to send it."""


_COLUMNS = (
    "outbox_id, delivery_key, platform, account, chat_id, body, thread_id, reply_to, session_id, turn_id, "
    "created_at, state, attempts, attempted_at, receipt, error"
)
_SELECT = f"SELECT {_COLUMNS} FROM outbox"  # noqa: S608 - constants of this module
_ATTEMPT = (
    "state = 'attempting', attempts = attempts + 1, "
    "attempted_at = CASE state WHEN 'attempting' THEN attempted_at ELSE ? END"
)
"""The time stays that of the first send that may have arrived."""


def _delivery(row: tuple[Any, ...]) -> OutboxRow:
    return OutboxRow(row[0], Owed(*row[1:10]), row[10], OutboxState(row[11]), *row[12:])


def owe(db: Db, owed: Owed, at: float) -> None:
    """Store a message that is owed to a chat, unless its delivery key is in the outbox already."""
    db.execute(
        "INSERT INTO outbox (delivery_key, platform, account, chat_id, body, thread_id, reply_to, "
        "session_id, turn_id, created_at, state) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 'owed') "
        "ON CONFLICT (delivery_key) DO NOTHING",
        (
            owed.delivery_key,
            owed.platform,
            owed.account,
            owed.chat_id,
            owed.body,
            owed.thread_id,
            owed.reply_to,
            owed.session_id,
            owed.turn_id,
            at,
        ),
    )


def begin_stream(db: Db, owed: Owed, at: float) -> int:
    """Record that the first part of a streamed message is about to be sent; return its row id. The outbox
    never delivers this row: the complete answer is a row of its own that names this one as replaced."""
    owe(db, owed, at)
    db.execute(
        f"UPDATE outbox SET streamed = TRUE, {_ATTEMPT} WHERE delivery_key = ? AND done_at IS NULL",  # noqa: S608
        (at, owed.delivery_key),
    )
    (outbox_id,) = db.execute(
        "SELECT outbox_id FROM outbox WHERE delivery_key = ?", (owed.delivery_key,)
    ).fetchone()
    return int(outbox_id)


def by_key(db: Db, delivery_key: str) -> OutboxRow | None:
    """Return the row with this delivery key; None if there is none."""
    row = db.execute(f"{_SELECT} WHERE delivery_key = ?", (delivery_key,)).fetchone()
    return _delivery(row) if row else None


def streamed_state(db: Db, delivery_key: str) -> Streamed:
    """Return the state of the streamed message with this key."""
    query = "SELECT state = 'attempting', receipt, attempted_at, attempts FROM outbox WHERE delivery_key = ?"
    lost, *others = db.execute(query, (delivery_key,)).fetchone() or (False, None, None, 0)
    return Streamed(bool(lost), *others)


def has_key(db: Db, delivery_key: str) -> bool:
    """Return whether the outbox has a row with this delivery key."""
    row = db.execute("SELECT 1 FROM outbox WHERE delivery_key = ?", (delivery_key,)).fetchone()
    return row is not None


def undelivered(db: Db, platform: str, account: str) -> list[OutboxRow]:
    """Return the open deliveries through this account, in order of creation."""
    query = (
        f"{_SELECT} WHERE platform = ? AND account = ? "
        "AND state IN ('owed', 'attempting') AND NOT streamed ORDER BY outbox_id"
    )
    return [_delivery(row) for row in db.execute(query, (platform, account))]


def waiting_chats(db: Db, platform: str, account: str) -> list[str]:
    """Return the chats with open deliveries through this account."""
    query = (
        "SELECT DISTINCT chat_id FROM outbox WHERE platform = ? AND account = ? "
        "AND state IN ('owed', 'attempting') AND NOT streamed"
    )
    return [chat_id for (chat_id,) in db.execute(query, (platform, account))]


def undelivered_to(db: Db, platform: str, account: str, chat_id: str) -> list[OutboxRow]:
    """Return the open deliveries to one chat, in order of creation."""
    query = (
        f"{_SELECT} WHERE platform = ? AND account = ? AND chat_id = ? "
        "AND state IN ('owed', 'attempting') AND NOT streamed ORDER BY outbox_id"
    )
    return [_delivery(row) for row in db.execute(query, (platform, account, chat_id))]


def last_sent(db: Db, platform: str) -> float | None:
    """Return the time of the last kept delivery to this platform."""
    query = "SELECT max(done_at) FROM outbox WHERE platform = ? AND state = 'sent'"
    row = db.execute(query, (platform,)).fetchone()
    return row[0] if row else None


def count_by_state(db: Db) -> dict[str, int]:
    """Return the number of kept deliveries in each state."""
    return dict(db.execute("SELECT state, count(*) FROM outbox GROUP BY state"))


def count_undelivered(db: Db) -> int:
    """Return the number of messages that are owed to chats."""
    query = "SELECT count(*) FROM outbox WHERE state IN ('owed', 'attempting') AND NOT streamed"
    return int(db.execute(query).fetchone()[0])


def get(db: Db, outbox_id: int) -> OutboxRow | None:
    """Return a row by its id; None if there is none."""
    row = db.execute(f"{_SELECT} WHERE outbox_id = ?", (outbox_id,)).fetchone()
    return _delivery(row) if row else None


def note_attempt(db: Db, outbox_id: int, at: float) -> None:
    """Record that a send is about to be attempted: from here on its outcome may be unknown."""
    db.execute(
        f"UPDATE outbox SET {_ATTEMPT}, error = NULL WHERE outbox_id = ? AND done_at IS NULL",  # noqa: S608
        (at, outbox_id),
    )


def note_failure(db: Db, outbox_id: int, error: str) -> None:
    """Record that an attempt certainly did not arrive: the message is owed again. An edit is attempted
    without a record, because it may be made twice; it counts as an attempt now."""
    db.execute(
        "UPDATE outbox SET attempts = attempts + CASE state WHEN 'owed' THEN 1 ELSE 0 END, "
        "state = 'owed', error = ? WHERE outbox_id = ? AND done_at IS NULL",
        (error, outbox_id),
    )


def note_receipt(db: Db, outbox_id: int, receipt: str | None, at: float) -> None:
    """Record that the message arrived; `receipt` is the id the platform gave it."""
    db.execute(
        "UPDATE outbox SET state = 'sent', receipt = ?, error = NULL, done_at = ? "
        "WHERE outbox_id = ? AND done_at IS NULL",
        (receipt, at, outbox_id),
    )


def give_up(db: Db, outbox_id: int, error: str, at: float) -> None:
    """Give up a delivery, and store the reason."""
    db.execute(
        "UPDATE outbox SET state = 'given_up', error = ?, done_at = ? "
        "WHERE outbox_id = ? AND done_at IS NULL",
        (error, at, outbox_id),
    )


def give_up_all(db: Db, error: str, at: float) -> int:
    """Give up every delivery that is not done, and store the reason; return their number."""
    undone = "UPDATE outbox SET state = 'given_up', error = ?, done_at = ? WHERE done_at IS NULL"
    return db.execute(undone, (error, at)).rowcount


def prune(db: Db, *, done_before: float, limit: int) -> int:
    """Delete up to `limit` deliveries that were done before a time, and streamed messages that a kill left
    unfinished before it; return their number."""
    return db.execute(
        "DELETE FROM outbox WHERE outbox_id IN (SELECT outbox_id FROM outbox "
        "WHERE done_at < ?1 OR (done_at IS NULL AND streamed AND attempted_at < ?1) LIMIT ?2)",
        (done_before, limit),
    ).rowcount
