"""The table `inbox`: every received message, stored before the platform gets its acknowledgement.

The table is the queue. A row is *pending*, *of a turn* (a turn may have many) or *done*. A message that is
received twice has one row. For a source that gives messages no id, the caller's idempotency key or an id of
ours takes its place.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from ...base.messages import MessageEvent
from ..db.column_text import read_stored
from ..db.engine import Answer, Db


class InboxState(StrEnum):
    """The progress of a received message."""

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
    """The row of a stored message; `seen_before` if it was stored earlier."""

    inbox_id: int
    seen_before: bool
    crowded_out: bool = False
    """Too many messages were waiting: it will not be answered, and its sender is to be told."""


_COLUMNS = "inbox_id, session_key, event, received_at, state, turn_id"
_SELECT = f"SELECT {_COLUMNS} FROM inbox"  # noqa: S608 - constants of this module


def _event(text: str) -> MessageEvent:
    return MessageEvent.from_dict(json.loads(text))


def _received(rows: Iterable[tuple[Any, ...]]) -> list[Received]:
    """Return the readable rows; log a warning for each unreadable one, which stays in the table."""
    return [
        Received(row[0], row[1], event, row[3], InboxState(row[4]), row[5])
        for row in rows
        if (event := read_stored(row[2], _event, "event", message=row[0]))
    ]


def store(
    db: Db,
    event: MessageEvent,
    *,
    session_key: str,
    own_key: str,
    at: float,
    message_key: str | None = None,
    done: bool = False,
    most: int | None = None,
) -> Stored:
    """Store a message, once. `own_key` identifies it if its source gave it no id; `message_key` replaces the
    id of its source, for a message derived from another. `done` is for commands, which are executed once
    and never replayed. If `most` messages wait in this session, the message is crowded out."""
    waiting = None if done or most is None else ask_count(db, session_key)
    body = json.dumps(event.to_dict(), ensure_ascii=False)
    source = event.source
    place = (
        source.platform,
        source.account,
        source.chat_id,
        message_key or event.message_key or f"ours:{own_key}",
    )
    new = db.execute(
        "INSERT INTO inbox (platform, account, chat_id, message_key, session_key, event, received_at, "
        "state, done_at, run_id) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING "
        "RETURNING inbox_id",
        (
            *place,
            session_key,
            body,
            at,
            InboxState.DONE if done else InboxState.PENDING,
            at if done else None,
            event.run_id,
        ),
    ).fetchone()
    crowded = most is not None and waiting is not None and waiting() >= most
    if new is not None:
        if crowded:
            drop(db, new[0], at)
        return Stored(new[0], seen_before=False, crowded_out=crowded)
    (inbox_id,) = db.execute(
        "SELECT inbox_id FROM inbox WHERE (platform, account, chat_id, message_key) = (?, ?, ?, ?)",
        place,
    ).fetchone()
    if forget_told(db, inbox_id):  # another life has received it, and its owner takes it in now
        if not (done or crowded):
            db.execute(
                "UPDATE inbox SET state = 'pending', done_at = NULL WHERE inbox_id = ?",
                (inbox_id,),
            )
        return Stored(inbox_id, seen_before=False, crowded_out=crowded)
    return Stored(inbox_id, seen_before=True)


def tell(db: Db, event: MessageEvent, *, session_key: str, own_key: str, at: float) -> None:
    """Store a message, once, for the life that owns its chat. It is done here, and told to the owner."""
    stored = store(db, event, session_key=session_key, own_key=own_key, at=at, done=True)
    if not stored.seen_before:
        db.execute("INSERT INTO told VALUES (?)", (stored.inbox_id,))


def hand_to_owner(db: Db, inbox_id: int, at: float) -> None:
    """Tell a message that was just stored to the life that owns its chat, which decides what it is."""
    db.execute("UPDATE inbox SET state = 'done', done_at = ? WHERE inbox_id = ?", (at, inbox_id))
    db.execute("INSERT INTO told VALUES (?)", (inbox_id,))


def told(db: Db, platform: str, account: str) -> list[Received]:
    """Return the messages from this account that were told to owners, in order of arrival."""
    query = (
        f"{_SELECT} WHERE inbox_id IN (SELECT inbox_id FROM told) AND platform = ? "  # noqa: S608
        "AND account = ? "
        "ORDER BY inbox_id"
    )
    return _received(db.execute(query, (platform, account)))


def ask_told(db: Db, platform: str, account: str, chat_id: str) -> Answer[bool]:
    """Ask whether a message in this chat was told to its owner, who has not taken it in."""
    found = db.execute(
        "SELECT 1 FROM inbox WHERE inbox_id IN (SELECT inbox_id FROM told) "
        "AND platform = ? AND account = ? AND chat_id = ? LIMIT 1",
        (platform, account, chat_id),
    )
    return lambda: found.fetchone() is not None


def forget_told(db: Db, inbox_id: int) -> bool:
    """Forget that a message was told to the owner of its chat. Return False if it was not, or is taken in."""
    return db.execute("DELETE FROM told WHERE inbox_id = ?", (inbox_id,)).rowcount == 1


def id_of(db: Db, event: MessageEvent) -> int | None:
    """Return the row id of a stored message; None if it was not stored, or its source gave it no id."""
    source = event.source
    place = source.platform, source.account, source.chat_id, event.message_key
    query = (
        "SELECT inbox_id FROM inbox WHERE platform = ? AND account = ? AND chat_id = ? AND message_key = ?"
    )
    row = db.execute(query, place).fetchone()
    return row[0] if row else None


def pending(db: Db, session_key: str) -> list[Received]:
    """Return the messages that wait for a turn of this session, in order of arrival."""
    query = f"{_SELECT} WHERE session_key = ? AND state = 'pending' ORDER BY inbox_id"
    return _received(db.execute(query, (session_key,)))


def count_pending(db: Db, session_key: str) -> int:
    """Return the number of messages that wait for a turn of this session."""
    return ask_count(db, session_key)()


def ask_count(db: Db, session_key: str) -> Answer[int]:
    """Ask for the number of messages that wait for a turn of this session."""
    query = "SELECT count(*) FROM inbox WHERE session_key = ? AND state = 'pending'"
    found = db.execute(query, (session_key,))
    return lambda: int(found.fetchone()[0])


def ask_pending_after(db: Db, turn_id: int) -> Answer[bool]:
    """Ask whether a message waits in the session of this turn."""
    found = db.execute(
        "SELECT count(*) FROM (SELECT 1 FROM inbox WHERE state = 'pending' AND session_key = "
        "(SELECT session_key FROM sessions JOIN turns USING (session_id) WHERE turn_id = ?) LIMIT 1) AS one",
        (turn_id,),
    )
    return lambda: bool(found.fetchone()[0])


def count_all_pending(db: Db) -> int:
    """Return the number of messages that wait for a turn of any session."""
    return int(db.execute("SELECT count(*) FROM inbox WHERE state = 'pending'").fetchone()[0])


def last_received(db: Db, platform: str) -> float | None:
    """Return the time of the last kept message from this platform."""
    row = db.execute("SELECT max(received_at) FROM inbox WHERE platform = ?", (platform,)).fetchone()
    return row[0] if row else None


def latest(db: Db, platform: str, account: str) -> Received | None:
    """Return the last message received through this account; None if there is none or it is unreadable."""
    query = f"{_SELECT} WHERE platform = ? AND account = ? ORDER BY inbox_id DESC LIMIT 1"
    return next(iter(_received(db.execute(query, (platform, account)))), None)


def ask_pending(db: Db, inbox_ids: Sequence[int]) -> Answer[bool]:
    """Ask whether all these messages still wait."""
    marks = ", ".join("?" * len(inbox_ids))
    query = f"SELECT count(*) FROM inbox WHERE inbox_id IN ({marks}) AND state = 'pending'"  # noqa: S608
    found = db.execute(query, inbox_ids)
    return lambda: bool(found.fetchone()[0] == len(inbox_ids))


def by_run(db: Db, run_id: str) -> Received | None:
    """Return the message whose answer was promised under this run id."""
    return next(iter(_received(db.execute(f"{_SELECT} WHERE run_id = ?", (run_id,)))), None)


def drop(db: Db, inbox_id: int, at: float) -> bool:
    """Mark a waiting message as done. Return False if it does not wait."""
    return (
        db.execute(
            "UPDATE inbox SET state = 'done', done_at = ? WHERE inbox_id = ? AND state = 'pending'",
            (at, inbox_id),
        ).rowcount
        == 1
    )


def drop_named(db: Db, message_key: str, at: float) -> None:
    """Mark the message with this key as done, if it waits."""
    db.execute(
        "UPDATE inbox SET state = 'done', done_at = ? WHERE message_key = ? AND state = 'pending'",
        (at, message_key),
    )


def drop_newest(db: Db, session_key: str, at: float) -> MessageEvent | None:
    """Mark the newest waiting message of a session as done, and return it; None if none waits."""
    waiting = pending(db, session_key)
    if not waiting:
        return None
    db.execute("UPDATE inbox SET state = 'done', done_at = ? WHERE inbox_id = ?", (at, waiting[-1].inbox_id))
    return waiting[-1].event


def drop_pending(db: Db, session_key: str, at: float) -> int:
    """Mark all waiting messages of a session as done; return their number."""
    return db.execute(
        "UPDATE inbox SET state = 'done', done_at = ? WHERE session_key = ? AND state = 'pending'",
        (at, session_key),
    ).rowcount


def keys_with_pending(db: Db) -> list[str]:
    """Return the keys of sessions with waiting messages, the longest waiting first."""
    query = (
        "SELECT session_key FROM inbox WHERE state = 'pending' GROUP BY session_key ORDER BY min(inbox_id)"
    )
    return [key for (key,) in db.execute(query)]


def waiting_keys(db: Db, platform: str, account: str) -> list[str]:
    """Return the keys of sessions with waiting messages from this account, the longest waiting first."""
    query = (
        "SELECT session_key FROM inbox WHERE state = 'pending' AND platform = ? AND account = ? "
        "GROUP BY session_key ORDER BY min(inbox_id)"
    )
    return [key for (key,) in db.execute(query, (platform, account))]


def waiting_chats(db: Db, platform: str, account: str) -> dict[str, str]:
    """Return the keys of sessions with waiting messages from this account, the longest waiting first, each
    with its chat."""
    query = (
        "SELECT session_key, chat_id FROM inbox WHERE state = 'pending' AND platform = ? AND account = ? "
        "GROUP BY session_key, chat_id ORDER BY min(inbox_id)"
    )
    return dict(db.execute(query, (platform, account)))


def by_ids(db: Db, inbox_ids: Iterable[int]) -> list[Received]:
    """Return the readable ones of these messages."""
    rows = (db.execute(f"{_SELECT} WHERE inbox_id = ?", (inbox_id,)).fetchone() for inbox_id in inbox_ids)
    return _received(row for row in rows if row)


def of_turn(db: Db, turn_id: int) -> list[Received]:
    """Return the open messages of a turn."""
    query = f"{_SELECT} WHERE turn_id = ? AND state = 'of_turn' ORDER BY inbox_id"
    return _received(db.execute(query, (turn_id,)))


def ever_of_turn(db: Db, turn_id: int) -> list[Received]:
    """Return the kept messages of a turn, open or done."""
    return _received(db.execute(f"{_SELECT} WHERE turn_id = ? ORDER BY inbox_id", (turn_id,)))


def join_turn(db: Db, turn_id: int, inbox_ids: Iterable[int]) -> Answer[int]:
    """Assign pending messages to a turn. The answer is the number of those that were still pending."""
    joined = [
        db.execute(
            "UPDATE inbox SET state = 'of_turn', turn_id = ? WHERE inbox_id = ? AND state = 'pending'",
            (turn_id, inbox_id),
        )
        for inbox_id in inbox_ids
    ]
    return lambda: sum(one.rowcount for one in joined)


def close_turn(db: Db, turn_id: int, at: float) -> None:
    """Mark the messages of a turn as done."""
    db.execute(
        "UPDATE inbox SET state = 'done', done_at = ? WHERE turn_id = ? AND state = 'of_turn'",
        (at, turn_id),
    )


def reopen_turn(db: Db, turn_id: int) -> None:
    """Make the messages of a turn that did not start with them pending again, in their old order."""
    db.execute(
        "UPDATE inbox SET state = 'pending', turn_id = NULL WHERE turn_id = ? AND state = 'of_turn'",
        (turn_id,),
    )


def close_cut_turns(db: Db, session_id: str, at: float) -> bool:
    """Mark the open messages of the cut turns of a session as done: those turns are not resumed. Return
    False if there are none."""
    closed = db.execute(
        "UPDATE inbox SET state = 'done', done_at = ? WHERE state = 'of_turn' AND turn_id IN "
        "(SELECT turn_id FROM turns WHERE session_id = ? AND outcome = 'cut')",
        (at, session_id),
    )
    return closed.rowcount > 0


def close_session(db: Db, session_id: str, at: float) -> None:
    """Mark the open messages of all turns of a session as done: the session is about to be deleted."""
    db.execute(
        "UPDATE inbox SET state = 'done', done_at = ? WHERE state = 'of_turn' AND turn_id IN "
        "(SELECT turn_id FROM turns WHERE session_id = ?)",
        (at, session_id),
    )


def prune(db: Db, *, done_before: float, limit: int) -> int:
    """Delete up to `limit` messages that were done before a time; return their number."""
    return db.execute(
        "DELETE FROM inbox WHERE inbox_id IN "
        "(SELECT inbox_id FROM inbox WHERE state = 'done' AND done_at < ? LIMIT ?)",
        (done_before, limit),
    ).rowcount
