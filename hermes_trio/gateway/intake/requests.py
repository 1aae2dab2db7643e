"""Messages that come with a request, from the API or the page. The response says at once what happens to the
message.

Such a message waits for a turn of its own, whose run id is promised before it begins, so that it can be
followed. Only with mode `steer` it joins the running turn. It goes into the named session, on whatever
platform, and so does the answer. The same request sent twice is one message; the second response says what
has happened to it.
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass, replace
from typing import Literal

from ...base.errors import GatewayError
from ...base.messages import MessageEvent
from ...state.tables import inbox, turns
from ...state.tables.inbox import InboxState, Stored
from .mailbox import MOST_WAITING, Mailbox

Status = Literal["started", "queued", "steered"]


@dataclass(frozen=True, slots=True)
class Posted:
    """The fate of a posted message."""

    inbox_id: int
    run_id: str
    status: Status


class NoTurnsNow(GatewayError):
    """No turn may begin now, and the message was not stored."""

    def __init__(self) -> None:
        super().__init__("The gateway is ending, or held. Send the message again when it is back.")


class TooManyWait(GatewayError):
    """The limit of waiting messages is reached, and the message was not stored."""

    def __init__(self) -> None:
        super().__init__(f"{MOST_WAITING} messages wait in this session. Send it again when one is answered.")


async def post(
    mailbox: Mailbox, key: str, event: MessageEvent, *, mode: Literal["queue", "steer"] = "queue"
) -> Posted:
    """Store and deliver a message to the session of this key, and return what happens to it. Raises
    `NoTurnsNow` and `TooManyWait`."""
    home, running = mailbox.home, mailbox.work.running
    own_key, at = home.world.new_id(), home.world.time()
    event = replace(event, run_id=own_key)
    answers = any(question.answer_in(event.text) is not None for question in running.open_questions(key))
    if not mailbox.control.takes_turns and not answers:
        known = await home.database.read(_known, event)
        if known is None:
            raise NoTurnsNow
        return known
    stored, first = await home.database.write(_store, event, key, own_key, at)
    if stored.seen_before:
        return await home.database.read(_state_of, stored.inbox_id)
    handle = running.handle(key)
    if await mailbox.answer(key, stored.inbox_id, event):
        return Posted(stored.inbox_id, handle.run_id if handle else own_key, "steered")
    begins = first and handle is None and running.limit.has_room
    session = mailbox.work.sessions.wake(key)
    if session is not None and handle is not None and mode == "steer":
        session.meet(event, stored.inbox_id, mode)
        if stored.inbox_id in handle.steered:
            return Posted(stored.inbox_id, handle.run_id, "steered")
    return Posted(stored.inbox_id, own_key, "started" if session is not None and begins else "queued")


def _store(
    db: sqlite3.Connection, event: MessageEvent, key: str, own_key: str, at: float
) -> tuple[Stored, bool]:
    """Store a message if there is room. Also return whether no message waits before it."""
    waiting = inbox.count_pending(db, key)
    stored = inbox.store(db, event, session_key=key, own_key=own_key, at=at)
    if waiting >= MOST_WAITING and not stored.seen_before:
        raise TooManyWait  # which rolls the transaction back
    return stored, waiting == 0


def _known(db: sqlite3.Connection, event: MessageEvent) -> Posted | None:
    """Return what happened to this message, if it was stored before."""
    inbox_id = inbox.id_of(db, event)
    return None if inbox_id is None else _state_of(db, inbox_id)


def _state_of(db: sqlite3.Connection, inbox_id: int) -> Posted:
    (row,) = inbox.by_ids(db, [inbox_id])
    turn = turns.get(db, row.turn_id) if row.turn_id is not None else None
    if turn is None:
        # It waits, or was dropped before a turn began with it.
        return Posted(inbox_id, row.event.run_id or "", "queued")
    status: Status = "queued" if row.state is InboxState.PENDING else "started"
    return Posted(inbox_id, turn.run_id, status)
