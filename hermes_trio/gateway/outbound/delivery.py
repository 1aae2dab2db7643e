"""Delivery of the owed rows of a chat.

The attempt is stored before the send, and the receipt after it, with the attempt at the next row if there is
one. So the state of each row is always known. A row whose send has an unknown outcome is never sent again
blindly: the platform is asked for it, or gets the same key again while it still knows that key, or, where it
can do neither, gets the row once more later, visibly marked.

A placeholder avoids the mark: the answer is sent as a placeholder, and its text follows as an edit, which may
be repeated. A crash between the send and its receipt leaves an empty placeholder in the chat, and the answer
goes into another message.

This module may touch the link and the outbox; the order and the pauses of a chat belong to `lane`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import msgspec
import trio

from ...base.world import World
from ...log import Log
from ...platform.contract import (
    ChatGone,
    CredentialsRefused,
    FloodWait,
    Link,
    LinkLost,
    NotSent,
    OutcomeUnknown,
    Outgoing,
    PlatformError,
    Refused,
    Traits,
)
from ...state.db.database import Database
from ...state.db.engine import Db
from ...state.rules.ownership import check_owner
from ...state.tables import chats, outbox
from ...state.tables.outbox import OutboxRow, OutboxState, Owed
from ..links.link import Connection, calling
from .rows import Body, Chat, Part
from .split import chunks

MAX_TRIES = 20
"""Attempts for a row that surely did not arrive; the pauses between them add up to about an hour."""
SEND_WITHIN = 60.0
EDIT_WITHIN = 30.0
FIRST_RETRY = 2.0
LONGEST_RETRY = 300.0
UNSURE_AGAIN_AFTER = 60.0
"""Seconds until a row that may have arrived is sent once more, marked: long enough for a late arrival."""
MOST_PLACEHOLDERS = 3
"""Placeholders that may be lost for one answer; after that it is sent without one."""
POSSIBLY_REPEATED = "♻ Possibly a repeat:\n"

log = Log(__name__)


class Delivery:
    """Delivers the owed rows of one chat."""

    def __init__(
        self, chat: Chat, connection: Connection, database: Database, world: World, owner: str | None
    ) -> None:
        self._chat, self._connection, self._owner = chat, connection, owner
        self._database, self._world = database, world
        self.unsure: dict[int, float] = {}
        """Rows that may have arrived, and when each is sent once more."""
        self.receipts: dict[int, str | None] = {}
        """Receipts that are not stored yet."""

    def reconnected(self) -> None:
        """Note that the link is a new one: rows that may have arrived may be sent again now."""
        self.unsure.clear()

    async def store_receipts(self) -> None:
        """Store the receipts that are not stored yet."""
        if not self.receipts:
            return
        receipts = dict(self.receipts)
        await self._database.write(_note_receipts, receipts, self._world.time())
        self._forget(receipts)

    async def hint_owner(self) -> None:
        """Tell the owner of the chat that something is owed here. It also looks by itself."""
        await self._database.write(chats.hint, *self._chat)

    async def due(self) -> list[tuple[OutboxRow, Body]]:
        """Return the rows that are due, in order, each with its body."""
        return [
            (row, msgspec.json.decode(row.owed.body, type=Body))
            for row in await self._database.read(outbox.undelivered_to, *self._chat)
            if self.unsure.get(row.outbox_id, 0) <= trio.current_time()
        ]

    async def deliver(self, link: Link, row: OutboxRow, body: Body) -> float | None:
        """Deliver a row, or give it up. Return the seconds to wait before it is tried again; None if it is
        done or its outcome is unknown. The caller stores the receipts. Raises `FloodWait` and `ChatGone`,
        with the row still owed, and `ForeignChat` before it is sent."""
        self.unsure.pop(row.outbox_id, None)
        is_repeat = row.state is OutboxState.ATTEMPTING
        is_marked = is_repeat and not self._can_tell(row.attempted_at)
        first_at = row.attempted_at if is_repeat else self._world.time()
        try:
            with trio.fail_after(SEND_WITHIN):
                self.receipts[row.outbox_id] = await self._arrived(link, row, body, is_marked=is_marked)
            chat, session = self._chat, row.owed.session_id
            log.info("message sent", platform=chat.platform, chat=chat.chat_id, session=session)
        except FloodWait as flood:
            # If this is cancelled, the lane ends, and nobody waits for the flood.
            await self._note_failure(row, flood)  # noqa: ASYNC120
            raise
        except (NotSent, LinkLost, CredentialsRefused) as error:
            if row.attempts + 1 >= MAX_TRIES:
                await self._give_up(row, self._connection.problem(error))
                log.error("delivery given up", chat=self._chat.chat_id, error=str(error))
                return None
            await self._note_failure(row, error)
            return min(FIRST_RETRY * 2.0**row.attempts, LONGEST_RETRY)
        except (OutcomeUnknown, trio.TooSlowError) as error:
            log.warning("delivery with unknown outcome", chat=self._chat.chat_id)
            wait = min(FIRST_RETRY * 2.0**row.attempts, LONGEST_RETRY)
            if self._can_tell(first_at, after=wait):
                return wait
            if is_marked:  # it is repeated once with a mark, and not again
                await self._give_up(row, self._connection.problem(error))
            else:
                self.unsure[row.outbox_id] = trio.current_time() + UNSURE_AGAIN_AFTER
        except ChatGone as error:
            log.error("delivery given up; chat is gone", chat=self._chat.chat_id, error=str(error))
            raise
        except Refused as error:
            log.error("delivery given up; refused", chat=self._chat.chat_id, error=str(error))
            await self._give_up(row, f"the platform refuses it: {self._connection.problem(error)}")
        return None

    async def _give_up(self, row: OutboxRow, why: str) -> None:
        await self._database.write(outbox.give_up, row.outbox_id, why, self._world.time())

    async def _note_failure(self, row: OutboxRow, error: PlatformError) -> None:
        """Store that this attempt did not arrive. A row with an earlier attempt of unknown outcome stays
        unsure: this failure says nothing about that one."""
        if row.state is OutboxState.OWED:
            await self._database.write(outbox.note_failure, row.outbox_id, self._connection.problem(error))

    async def _arrived(self, link: Link, row: OutboxRow, body: Body, *, is_marked: bool) -> str | None:
        """Make this row arrive, and return its message id on the platform. A row that may have arrived is
        looked up, or repeated under its key while that is good, or repeated with a mark (`is_marked`)."""
        traits = self._connection.adapter.traits
        key = row.owed.delivery_key
        unsure = row.state is OutboxState.ATTEMPTING
        if body.only_closes and not traits.edits:
            return None  # it removes buttons, and this platform cannot edit
        if body.closes is not None:
            read = self._database.read(outbox.streamed_state, body.closes)
            lost, message_id, sent_at, attempts = await read
            if lost or message_id is not None or traits.placeholder:
                await self.store_receipts()  # the platform is called before the attempt is stored
            if lost:
                message_id = await self._found(link, row, body, sent_at)
            if message_id is None and traits.placeholder and not body.only_closes:
                message_id = await self._placed(link, row, body.closes, attempts)
            # An edit may be made twice, so its attempt needs no record.
            if message_id is not None and await self._edited(link, message_id, body):
                return message_id
            # A lost placeholder showed no text: nothing to close, and nothing that a repeat could double.
            lost = lost and not traits.placeholder
            if body.only_closes and (traits.finds or not lost):
                return None
            unsure = unsure or lost
            is_marked = is_marked or (lost and not self._can_tell(sent_at))
        parts = [*body.before, body.part]
        if unsure and traits.finds:
            await self.store_receipts()
            if (message_id := await self._find(link, key, row)) is not None:
                return message_id
        if is_marked:
            parts = _marked(parts, traits)
        receipts = dict(self.receipts)
        at = self._world.time()
        await self._database.write(_note_attempt, self._chat, self._owner, row.outbox_id, receipts, at)
        self._forget(receipts)
        for left, part in zip(range(len(parts) - 1, -1, -1), parts, strict=True):
            message = outgoing(row.owed, part)
            if left:
                message = replace(message, key=f"{key}:{left}")
            else:
                message = replace(message, attachments=body.files, buttons=body.buttons)
            message_id = await self._send(link, message)
        return message_id

    async def _edited(self, link: Link, message_id: str, body: Body) -> bool:
        """Give a streamed message its final text. Return False if that is impossible, for example because a
        person deleted it: then the text must be sent as a message of its own."""
        try:
            with trio.fail_after(EDIT_WITHIN), calling(self._connection):
                await link.edit(self._chat.chat_id, message_id, body.text, body.preformatted)
        except (OutcomeUnknown, trio.TooSlowError) as error:
            raise NotSent(f"The edit is repeated: {error}") from error  # an edit may be made twice
        except Refused as error:
            if body.only_closes or isinstance(error, ChatGone):
                raise
            return False
        return True

    async def _found(self, link: Link, row: OutboxRow, body: Body, sent_at: float | None) -> str | None:
        """Recover the lost id of the streamed message that this row replaces: look it up by key, or resend
        under the same key while that is good, a no-op if it arrived."""
        assert body.closes is not None  # noqa: S101 - the caller looked
        traits = self._connection.adapter.traits
        if traits.finds:
            return await self._find(link, body.closes, row)
        if self._key_is_good(sent_at):
            return await self._send(link, outgoing(replace(row.owed, delivery_key=body.closes), body.part))
        return None

    async def _placed(self, link: Link, row: OutboxRow, key: str, attempts: int) -> str | None:
        """Send a placeholder for this row and return its id; None if too many placeholders were lost."""
        if attempts >= MOST_PLACEHOLDERS:
            return None
        placeholder = self._connection.adapter.traits.placeholder
        body = msgspec.json.encode(Body(placeholder)).decode()
        try:
            return await self.begin(link, replace(row.owed, delivery_key=key, body=body), placeholder)
        except OutcomeUnknown as error:
            raise NotSent(f"No part of the answer was sent: {error}") from error

    async def begin(self, link: Link, row: Owed, text: str) -> str | None:
        """Send the first message of a stream, and store its id before it is ever edited."""
        outbox_id = await self._database.write(outbox.begin_stream, row, self._world.time())
        try:
            message_id = await self._send(link, outgoing(row, Part(text), grows=True))
        except (NotSent, Refused) as error:
            # If cancelled here the row stays unsure, which costs at most a visible mark on a repeat.
            await self._database.write(outbox.note_failure, outbox_id, self._connection.problem(error))  # noqa: ASYNC120
            raise
        self.receipts[outbox_id] = message_id
        await self.store_receipts()
        return message_id

    async def _send(self, link: Link, message: Outgoing) -> str | None:
        with calling(self._connection):
            return await link.send(message)

    async def _find(self, link: Link, key: str, row: OutboxRow) -> str | None:
        with calling(self._connection):
            return await link.find(self._chat.chat_id, key, row.owed.thread_id)

    def _can_tell(self, sent_at: float | None, *, after: float = 0.0) -> bool:
        """Return True if the unknown outcome of a message that was first sent at this time can be settled
        without a visible repeat, now or after some seconds."""
        return self._connection.adapter.traits.finds or self._key_is_good(sent_at, after=after)

    def _key_is_good(self, sent_at: float | None, *, after: float = 0.0) -> bool:
        """Return True if the platform still knows the key of a message that was first sent at this time. A
        clock that was set back tells nothing."""
        good_for = self._connection.adapter.traits.takes_keys_for
        return sent_at is not None and 0 <= self._world.time() - sent_at < good_for - after

    def _forget(self, stored: Mapping[int, str | None]) -> None:
        for outbox_id in stored:
            del self.receipts[outbox_id]


def _note_receipts(db: Db, receipts: Mapping[int, str | None], at: float) -> None:
    for outbox_id, receipt in receipts.items():
        outbox.note_receipt(db, outbox_id, receipt, at)


def _note_attempt(
    db: Db, chat: Chat, owner: str | None, outbox_id: int, receipts: Mapping[int, str | None], at: float
) -> None:
    check_owner(db, owner, *chat)
    _note_receipts(db, receipts, at)
    outbox.note_attempt(db, outbox_id, at)


def _marked(parts: list[Part], traits: Traits) -> list[Part]:
    """Return the parts marked as a possible repeat. A plain text is split again, because the mark may not
    fit; an exactly shown question has left room for it."""
    first, *others = parts
    if not others and not first.preformatted:
        return [Part(text) for text in chunks(POSSIBLY_REPEATED + first.text, traits)]
    by = len(POSSIBLY_REPEATED)
    moved = tuple((start + by, end + by) for start, end in first.preformatted)
    return [Part(POSSIBLY_REPEATED + first.text, moved), *others]


def outgoing(row: Owed, part: Part, *, grows: bool = False) -> Outgoing:
    """Return the message to send for a part of an owed row."""
    return Outgoing(
        chat_id=row.chat_id,
        text=part.text,
        preformatted=part.preformatted,
        key=row.delivery_key,
        thread_id=row.thread_id,
        reply_to=row.reply_to,
        grows=grows,
    )
