"""The inbox: what was received, from the moment a platform hears "received".

The table is the queue. A row is *pending*, *of a turn* (many rows may be of one) or *done*; the same
message seen twice is one row. Where a door gives its messages no id, the caller's idempotency key, or
an id of ours, stands in for it.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from ...base.messages import MessageEvent
from ..db.column_text import read_stored


class InboxState(StrEnum):
    """Where a received message has got to."""

    PENDING = "pending"
    OF_TURN = "of_turn"
    DONE = "done"


@dataclass(frozen=True, slots=True)
class Received:
    """One stored message."""

    inbox_id: int
    session_key: str
    event: MessageEvent
    received_at: float
    state: InboxState
    turn_id: int | None


@dataclass(frozen=True, slots=True)
class Stored:
    """The row of a message that is now safe; `seen_before` says it had been so already."""

    inbox_id: int
    seen_before: bool
    crowded_out: bool = False
    """There was no room: nobody will answer it, and whoever wrote it is to be told."""


_COLUMNS = "inbox_id, session_key, event, received_at, state, turn_id"
_SELECT = f"SELECT {_COLUMNS} FROM inbox"  # noqa: S608 - constants of this module


def _event(text: str) -> MessageEvent:
    return MessageEvent.from_dict(json.loads(text))


def _received(rows: Iterable[tuple[Any, ...]]) -> list[Received]:
    """The rows that can be read; the others are reported each time somebody looks, and stay."""
    return [
        Received(row[0], row[1], event, row[3], InboxState(row[4]), row[5])
        for row in rows
        if (event := read_stored(row[2], _event, "event", message=row[0]))
    ]


def store(
    db: sqlite3.Connection,
    event: MessageEvent,
    *,
    session_key: str,
    own_key: str,
    at: float,
    message_key: str | None = None,
    done: bool = False,
    most: int | None = None,
) -> Stored:
    """Make a message safe. `own_key` names it where its door does not; `message_key` is another name than
    its door's, for what was made of a message. `done` is for commands: what they ask happens once and never
    replays. Where `most` messages wait in this session there is no room for another."""
    source = event.source
    place = (
        source.platform,
        source.account,
        source.chat_id,
        message_key or event.message_key or f"ours:{own_key}",
    )
    crowded = not done and most is not None and count_pending(db, session_key) >= most
    done = done or crowded
    cursor = db.execute(
        "INSERT INTO inbox (platform, account, chat_id, message_key, session_key, event, received_at, "
        "state, done_at, run_id) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
        (
            *place,
            session_key,
            json.dumps(event.to_dict(), ensure_ascii=False),
            at,
            InboxState.DONE if done else InboxState.PENDING,
            at if done else None,
            event.run_id,
        ),
    )
    if cursor.rowcount == 1:
        assert cursor.lastrowid is not None  # noqa: S101 - SQLite always gives one after an insert
        return Stored(cursor.lastrowid, seen_before=False, crowded_out=crowded)
    (inbox_id,) = db.execute(
        "SELECT inbox_id FROM inbox WHERE (platform, account, chat_id, message_key) = (?, ?, ?, ?)",
        place,
    ).fetchone()
    return Stored(inbox_id, seen_before=True)


def id_of(db: sqlite3.Connection, event: MessageEvent) -> int | None:
    """The row of a message that was stored before; None if it was not, or its door gave it no name."""
    source = event.source
    place = source.platform, source.account, source.chat_id, event.message_key
    query = (
        "SELECT inbox_id FROM inbox WHERE platform = ? AND account = ? AND chat_id = ? AND message_key = ?"
    )
    row = db.execute(query, place).fetchone()
    return row[0] if row else None


def pending(db: sqlite3.Connection, session_key: str) -> list[Received]:
    """The messages that wait for a turn of this session, in the order in which they came."""
    query = f"{_SELECT} WHERE session_key = ? AND state = 'pending' ORDER BY inbox_id"
    return _received(db.execute(query, (session_key,)))


def count_pending(db: sqlite3.Connection, session_key: str) -> int:
    """How many messages wait for a turn of this session."""
    query = "SELECT count(*) FROM inbox WHERE session_key = ? AND state = 'pending'"
    return int(db.execute(query, (session_key,)).fetchone()[0])


def count_all_pending(db: sqlite3.Connection) -> int:
    """How many messages wait for a turn of any session."""
    return int(db.execute("SELECT count(*) FROM inbox WHERE state = 'pending'").fetchone()[0])


def last_received(db: sqlite3.Connection, platform: str) -> float | None:
    """When somebody was heard on this platform last, as far as that is kept."""
    row = db.execute("SELECT max(received_at) FROM inbox WHERE platform = ?", (platform,)).fetchone()
    return row[0] if row else None


def latest(db: sqlite3.Connection, platform: str, account: str) -> Received | None:
    """Return the message that was received last from this account; None if there is none that can be read."""
    query = f"{_SELECT} WHERE platform = ? AND account = ? ORDER BY inbox_id DESC LIMIT 1"
    return next(iter(_received(db.execute(query, (platform, account)))), None)


def is_pending(db: sqlite3.Connection, inbox_id: int) -> bool:
    """Whether this message still waits."""
    query = "SELECT 1 FROM inbox WHERE inbox_id = ? AND state = 'pending'"
    return db.execute(query, (inbox_id,)).fetchone() is not None


def by_run(db: sqlite3.Connection, run_id: str) -> Received | None:
    """The message for whose answer a run of this name was promised."""
    return next(iter(_received(db.execute(f"{_SELECT} WHERE run_id = ?", (run_id,)))), None)


def drop(db: sqlite3.Connection, inbox_id: int, at: float) -> bool:
    """Let this message wait no more. False if it does not wait."""
    return (
        db.execute(
            "UPDATE inbox SET state = 'done', done_at = ? WHERE inbox_id = ? AND state = 'pending'",
            (at, inbox_id),
        ).rowcount
        == 1
    )


def drop_named(db: sqlite3.Connection, message_key: str, at: float) -> None:
    """Let the message of this name wait no more, if it does."""
    db.execute(
        "UPDATE inbox SET state = 'done', done_at = ? WHERE message_key = ? AND state = 'pending'",
        (at, message_key),
    )


def drop_newest(db: sqlite3.Connection, session_key: str, at: float) -> MessageEvent | None:
    """Let the message that came last wait no more; returns it, None if none waits."""
    waiting = pending(db, session_key)
    if not waiting:
        return None
    db.execute("UPDATE inbox SET state = 'done', done_at = ? WHERE inbox_id = ?", (at, waiting[-1].inbox_id))
    return waiting[-1].event


def drop_pending(db: sqlite3.Connection, session_key: str, at: float) -> int:
    """Let nothing wait any more in this session; returns how many messages did."""
    return db.execute(
        "UPDATE inbox SET state = 'done', done_at = ? WHERE session_key = ? AND state = 'pending'",
        (at, session_key),
    ).rowcount


def keys_with_pending(db: sqlite3.Connection) -> list[str]:
    """The sessions for which messages wait, the longest waiting first."""
    query = (
        "SELECT session_key FROM inbox WHERE state = 'pending' GROUP BY session_key ORDER BY min(inbox_id)"
    )
    return [key for (key,) in db.execute(query)]


def waiting_keys(db: sqlite3.Connection, platform: str, account: str) -> list[str]:
    """The sessions for which messages from this account wait, the longest waiting first."""
    query = (
        "SELECT session_key FROM inbox WHERE state = 'pending' AND platform = ? AND account = ? "
        "GROUP BY session_key ORDER BY min(inbox_id)"
    )
    return [key for (key,) in db.execute(query, (platform, account))]


def by_ids(db: sqlite3.Connection, inbox_ids: Iterable[int]) -> list[Received]:
    """These messages, those of them that can be read."""
    rows = (db.execute(f"{_SELECT} WHERE inbox_id = ?", (inbox_id,)).fetchone() for inbox_id in inbox_ids)
    return _received(row for row in rows if row)


def of_turn(db: sqlite3.Connection, turn_id: int) -> list[Received]:
    """The open messages of a turn."""
    query = f"{_SELECT} WHERE turn_id = ? AND state = 'of_turn' ORDER BY inbox_id"
    return _received(db.execute(query, (turn_id,)))


def ever_of_turn(db: sqlite3.Connection, turn_id: int) -> list[Received]:
    """The messages of a turn, open or done, as long as they are kept."""
    return _received(db.execute(f"{_SELECT} WHERE turn_id = ? ORDER BY inbox_id", (turn_id,)))


def join_turn(db: sqlite3.Connection, turn_id: int, inbox_ids: Iterable[int]) -> int:
    """Give pending messages to a turn; returns how many were still pending."""
    return sum(
        db.execute(
            "UPDATE inbox SET state = 'of_turn', turn_id = ? WHERE inbox_id = ? AND state = 'pending'",
            (turn_id, inbox_id),
        ).rowcount
        for inbox_id in inbox_ids
    )


def close_turn(db: sqlite3.Connection, turn_id: int, at: float) -> None:
    """The messages of this turn are dealt with."""
    db.execute(
        "UPDATE inbox SET state = 'done', done_at = ? WHERE turn_id = ? AND state = 'of_turn'",
        (at, turn_id),
    )


def reopen_turn(db: sqlite3.Connection, turn_id: int) -> None:
    """The messages of this turn wait again, in their old place: it had not begun with them."""
    db.execute(
        "UPDATE inbox SET state = 'pending', turn_id = NULL WHERE turn_id = ? AND state = 'of_turn'",
        (turn_id,),
    )


def close_cut_turns(db: sqlite3.Connection, session_id: str, at: float) -> bool:
    """Close what the cut turns of a session still hold: nobody takes them up. False if they hold nothing."""
    closed = db.execute(
        "UPDATE inbox SET state = 'done', done_at = ? WHERE state = 'of_turn' AND turn_id IN "
        "(SELECT turn_id FROM turns WHERE session_id = ? AND outcome = 'cut')",
        (at, session_id),
    )
    return closed.rowcount > 0


def close_session(db: sqlite3.Connection, session_id: str, at: float) -> None:
    """Close what the turns of a session hold: the session goes, and nobody will answer it."""
    db.execute(
        "UPDATE inbox SET state = 'done', done_at = ? WHERE state = 'of_turn' AND turn_id IN "
        "(SELECT turn_id FROM turns WHERE session_id = ?)",
        (at, session_id),
    )


def prune(db: sqlite3.Connection, *, done_before: float, limit: int = -1) -> int:
    """Forget messages that were done before a time, at most so many; returns how many."""
    return db.execute(
        "DELETE FROM inbox WHERE inbox_id IN "
        "(SELECT inbox_id FROM inbox WHERE state = 'done' AND done_at < ? LIMIT ?)",
        (done_before, limit),
    ).rowcount
