"""Messages that come with a request, from the API or the page. The response says at once what happens to the
message.

Such a message waits for a turn of its own, whose run id is promised before it begins, so that it can be
followed. Only with mode `steer` it joins the running turn. It goes into the named session, on whatever
platform, and so does the answer. The same request sent twice is one message; the second response says what
has happened to it.

It may touch the inbox and the mailbox.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from ...base.errors import GatewayError
from ...base.messages import MessageEvent
from ...state.db.engine import Db
from ...state.tables import chats, inbox, turns
from ...state.tables.inbox import InboxState
from .mailbox import MOST_WAITING, Mailbox

Status = Literal["started", "queued", "steered"]


@dataclass(frozen=True, slots=True)
class Posted:
    """The fate of a posted message."""

    inbox_id: int
    run_id: str
    status: Status


@dataclass(frozen=True, slots=True)
class StoredRequest:
    """A stored message, before its session is woken."""

    session_key: str
    event: MessageEvent
    """The message with the id of its run."""
    inbox_id: int
    is_first: bool
    """True if no message waits before it."""
    known: Posted | None
    """The fate of the message if it was stored before: the request was sent twice."""


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
    event, at = replace(event, run_id=home.world.new_id()), home.world.time()
    answers = any(question.answer_in(event.text) is not None for question in running.open_questions(key))
    if not mailbox.control.takes_messages and not answers:
        known = await home.database.read(_known, event)
        if known is None:
            raise NoTurnsNow
        return known
    return await deliver(
        mailbox, await home.database.write(store_request, event, key, at, home.owner), mode=mode
    )


async def deliver(
    mailbox: Mailbox, request: StoredRequest, *, mode: Literal["queue", "steer"] = "queue"
) -> Posted:
    """Wake the session of a stored message, and return what happens to it."""
    if request.known is not None:
        return request.known
    key, event, inbox_id = request.session_key, request.event, request.inbox_id
    run_id, running = event.run_id or "", mailbox.work.running
    handle = running.handle(key)
    if await mailbox.answer(key, inbox_id, event):
        return Posted(inbox_id, handle.run_id if handle else run_id, "steered")
    begins = request.is_first and handle is None and running.limit.has_room
    session = mailbox.work.sessions.wake(key)
    if session is not None and handle is not None and mode == "steer":
        session.meet(event, inbox_id, mode)
        if inbox_id in handle.steered:
            return Posted(inbox_id, handle.run_id, "steered")
    return Posted(inbox_id, run_id, "started" if session is not None and begins else "queued")


def store_request(
    db: Db, event: MessageEvent, key: str, at: float, owner: str | None = None
) -> StoredRequest:
    """Store a message whose run is promised. Where several gateways share the store, `owner` is the life of
    this one: it takes the chat if that is nobody's, so that no other one adopts it with the message. Raises
    `TooManyWait`, which rolls the transaction back."""
    if owner is not None:
        chats.claim_free(db, owner, event.source.platform, event.source.account, event.source.chat_id)
    count = inbox.ask_count(db, key)
    stored = inbox.store(db, event, session_key=key, own_key=event.run_id or "", at=at)
    waiting = count()
    if waiting >= MOST_WAITING and not stored.seen_before:
        raise TooManyWait
    known = _state_of(db, stored.inbox_id) if stored.seen_before else None
    return StoredRequest(key, event, stored.inbox_id, waiting == 0, known)


def _known(db: Db, event: MessageEvent) -> Posted | None:
    """Return what happened to this message, if it was stored before."""
    inbox_id = inbox.id_of(db, event)
    return None if inbox_id is None else _state_of(db, inbox_id)


def _state_of(db: Db, inbox_id: int) -> Posted:
    (row,) = inbox.by_ids(db, [inbox_id])
    turn = turns.get(db, row.turn_id) if row.turn_id is not None else None
    if turn is None:
        # It waits, or was dropped before a turn began with it.
        return Posted(inbox_id, row.event.run_id or "", "queued")
    status: Status = "queued" if row.state is InboxState.PENDING else "started"
    return Posted(inbox_id, turn.run_id, status)
