"""The way of a message that comes with a request: whoever sends it is told at once what becomes of it.

It waits for its turn, and that turn is its own: the run is named before it begins, so that it can be
followed. Only where that is asked for it is taken along by the turn that runs. It goes into the session that
is asked for, wherever that lives; there the answer goes too. The same request sent twice is one message, and
the second answer says what has become of it.
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from ...base.errors import GatewayError
from ...base.messages import MessageEvent
from ...state.tables import inbox, turns
from ...state.tables.inbox import InboxState, Stored
from ..turn import questions
from . import chat_intake

if TYPE_CHECKING:
    from ..parts import Gateway

Status = Literal["started", "queued", "steered"]


@dataclass(frozen=True, slots=True)
class Posted:
    """What has become of a message."""

    inbox_id: int
    run_id: str
    status: Status


class NoTurnsNow(GatewayError):
    """No turn begins now, and the message was not stored."""

    def __init__(self) -> None:
        super().__init__("The gateway is ending, or held. Send the message again when it is back.")


class TooManyWait(GatewayError):
    """There is no room for another message in this session, and it was not stored."""

    def __init__(self) -> None:
        super().__init__(
            f"{chat_intake.MOST_WAITING} messages wait in this session. Send it again when one is answered."
        )


async def post(
    gateway: Gateway, key: str, event: MessageEvent, *, mode: Literal["queue", "steer"] = "queue"
) -> Posted:
    """Take in a message for the session of this key, and return what becomes of it. Raises `NoTurnsNow` and
    `TooManyWait`."""
    own_key, at = gateway.world.new_id(), gateway.world.time()
    event = replace(event, run_id=own_key)
    answers = any(asked.meant(event.text) is not None for asked in questions.waiting(gateway, key))
    if not gateway.sessions.open and not answers:
        known = await gateway.database.read(_known, event)
        if known is None:
            raise NoTurnsNow
        return known
    stored, first = await gateway.database.write(_store, event, key, own_key, at)
    if stored.seen_before:
        return await gateway.database.read(_became, stored.inbox_id)
    task = gateway.sessions.task(key)
    if await chat_intake.answers(gateway, key, stored.inbox_id, event):
        return Posted(stored.inbox_id, task.run_id if task else own_key, "steered")
    begins = first and task is None and gateway.sessions.limit.has_room
    actor = gateway.sessions.wake(key)
    if actor is not None and task is not None and mode == "steer":
        actor.meet(event, stored.inbox_id, mode)
        if stored.inbox_id in task.steered:
            return Posted(stored.inbox_id, task.run_id, "steered")
    return Posted(stored.inbox_id, own_key, "started" if actor is not None and begins else "queued")


def _store(
    db: sqlite3.Connection, event: MessageEvent, key: str, own_key: str, at: float
) -> tuple[Stored, bool]:
    """Store it, if there is room. Also returns whether nothing waits before it."""
    waiting = inbox.count_pending(db, key)
    stored = inbox.store(db, event, session_key=key, own_key=own_key, at=at)
    if waiting >= chat_intake.MOST_WAITING and not stored.seen_before:
        raise TooManyWait  # which takes it back
    return stored, waiting == 0


def _known(db: sqlite3.Connection, event: MessageEvent) -> Posted | None:
    """What has become of this message, if it came before."""
    inbox_id = inbox.id_of(db, event)
    return None if inbox_id is None else _became(db, inbox_id)


def _became(db: sqlite3.Connection, inbox_id: int) -> Posted:
    (row,) = inbox.by_ids(db, [inbox_id])
    turn = turns.get(db, row.turn_id) if row.turn_id is not None else None
    if turn is None:
        # It waits, or was dropped before anything began with it.
        return Posted(inbox_id, row.event.run_id or "", "queued")
    status: Status = "queued" if row.state is InboxState.PENDING else "started"
    return Posted(inbox_id, turn.run_id, status)
