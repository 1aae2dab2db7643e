"""Delivering what a chat is owed.

The attempt is recorded before the send and the receipt after it, so that at any moment it is known what is
known. A row whose send has an unknown outcome is never sent again blindly: where the platform can be asked
it is asked, where it takes keys the same key goes again, and otherwise it is sent once more by a later
attempt, visibly marked.

There is a way around the mark: where a platform has a placeholder, an answer is sent as that, and its text
goes in by an edit, which may be repeated. Cut off in the one unlucky moment, between the send and its
receipt, that leaves a message which says nothing, and the answer goes into another.
"""

from __future__ import annotations

from collections.abc import Callable
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
from ...state.tables import outbox
from ...state.tables.outbox import OutboxRow, OutboxState, Owed
from ..links.link import Connection, calling
from .rows import Body, Chat, Part
from .split import chunks

MAX_TRIES = 20
"""So often it is tried to send what surely did not arrive, with the pauses an hour long."""
SEND_WITHIN = 60.0
EDIT_WITHIN = 30.0
FIRST_RETRY = 2.0
LONGEST_RETRY = 300.0
UNSURE_AGAIN_AFTER = 60.0
"""Seconds until what may have arrived is sent once more, marked. Long enough that it has arrived by then, if
it was on its way."""
MOST_PLACEHOLDERS = 3
"""So many may be lost for one answer; it is sent as it is then."""
POSSIBLY_REPEATED = "♻ Possibly a repeat:\n"

log = Log(__name__)


class Deliveries:
    """The owed rows of one chat. `closes` is told the key of a growing message that a row now closes,
    `floods` for how many seconds the platform wants silence in the chat."""

    def __init__(
        self,
        chat: Chat,
        connection: Connection,
        database: Database,
        world: World,
        dead: dict[Chat, str],
        *,
        closes: Callable[[str], None],
        floods: Callable[[float], None],
    ) -> None:
        self._chat, self._connection = chat, connection
        self._database, self._world = database, world
        self._dead, self._closes, self._floods = dead, closes, floods
        self._unsure: dict[int, float] = {}
        """What may have arrived, and when it is sent once more."""
        self._receipts: dict[int, str | None] = {}
        """What has arrived and is not stored yet."""

    def connected(self) -> None:
        """The link is another one than before: what nobody knew of may be sent once more."""
        self._unsure.clear()

    async def store_receipts(self) -> None:
        """Store what has arrived and could not be stored, as on a full disk."""
        for outbox_id in list(self._receipts):
            await self._store_receipt(outbox_id)

    async def deliver_all(self, link: Link) -> float | None:
        """Deliver what is owed, in order. Returns the seconds to wait before trying again."""
        for row in await self._database.read(outbox.undelivered_to, *self._chat):
            if self._unsure.get(row.outbox_id, 0) > trio.current_time():
                continue
            if self._chat in self._dead:
                return None
            wait = await self._deliver(link, row)
            if wait is not None:
                return wait
        return min((at - trio.current_time() for at in self._unsure.values()), default=None)

    async def _deliver(self, link: Link, row: OutboxRow) -> float | None:
        write, now = self._database.write, self._world.time
        body = msgspec.json.decode(row.owed.body, type=Body)
        self._unsure.pop(row.outbox_id, None)
        if body.closes is not None:
            self._closes(body.closes)
        try:
            with trio.fail_after(SEND_WITHIN), calling(self._connection):
                receipt = await self._arrived(link, row, body)
            await self.note_receipt(row.outbox_id, receipt)
        except FloodWait as flood:
            self._floods(flood.seconds)
            await self._note_failure(row, flood)
            return float(flood.seconds)
        except (NotSent, LinkLost, CredentialsRefused) as error:
            if row.attempts + 1 >= MAX_TRIES:
                await write(outbox.give_up, row.outbox_id, self._connection.problem(error), now())
                log.error("gave up a delivery", chat=self._chat.chat_id, error=str(error))
                return None
            await self._note_failure(row, error)
            return min(FIRST_RETRY * 2.0**row.attempts, LONGEST_RETRY)
        except (OutcomeUnknown, trio.TooSlowError) as error:
            log.warning("nobody knows whether a message arrived", chat=self._chat.chat_id)
            if link_can_tell(self._connection):
                return min(FIRST_RETRY * 2.0**row.attempts, LONGEST_RETRY)
            if row.state is OutboxState.ATTEMPTING:  # this was the repeat
                await write(outbox.give_up, row.outbox_id, self._connection.problem(error), now())
            else:
                self._unsure[row.outbox_id] = trio.current_time() + UNSURE_AGAIN_AFTER
        except Refused as error:
            log.error("gave up a delivery", chat=self._chat.chat_id, error=str(error))
            if isinstance(error, ChatGone):
                self._dead[self._chat] = self._connection.problem(error)
            else:
                why = f"the platform refuses it: {self._connection.problem(error)}"
                await write(outbox.give_up, row.outbox_id, why, now())
        return None

    async def _note_failure(self, row: OutboxRow, error: PlatformError) -> None:
        """This attempt surely did not arrive. Of an earlier one whose outcome is unknown that says
        nothing: such a row stays unsure."""
        if row.state is OutboxState.OWED:
            await self._database.write(outbox.note_failure, row.outbox_id, self._connection.problem(error))

    async def _arrived(self, link: Link, row: OutboxRow, body: Body) -> str | None:
        """See to it that this row has arrived; returns its id there."""
        traits = self._connection.adapter.traits
        chat_id, key = self._chat.chat_id, row.owed.delivery_key
        unsure = row.state is OutboxState.ATTEMPTING
        if body.only_closes and not traits.edits:
            return None  # buttons, where nothing that was sent can be changed
        if body.closes is not None:
            lost, message_id = await self._database.read(outbox.grown, body.closes)
            if lost:
                message_id = await self._found(link, row, body)
            if message_id is None and traits.placeholder and not body.only_closes:
                message_id = await self._placed(link, row, body.closes)
            if message_id is not None:
                await self._database.write(outbox.note_attempt, row.outbox_id, self._world.time())
                if await self._edited(link, message_id, body):
                    return message_id
            # A lost placeholder has said nothing that is to be closed, or could be repeated.
            lost = lost and not traits.placeholder
            if body.only_closes and (traits.finds or not lost):
                return None
            unsure = unsure or lost
        parts = [*body.before, body.part]
        if unsure:
            if traits.finds and (message_id := await link.find(chat_id, key)) is not None:
                return message_id
            if not link_can_tell(self._connection):
                parts = _marked(parts, traits)
        await self._database.write(outbox.note_attempt, row.outbox_id, self._world.time())
        for left, part in zip(range(len(parts) - 1, -1, -1), parts, strict=True):
            message = outgoing(row.owed, part)
            if left:
                message = replace(message, key=f"{key}:{left}")
            else:
                message = replace(message, attachments=body.files, buttons=body.buttons)
            message_id = await link.send(message)
        return message_id

    async def _edited(self, link: Link, message_id: str, body: Body) -> bool:
        """Whether the message that has grown says this now, once for all. If it cannot, because somebody
        has deleted it, say, what it should have said must be a message of its own."""
        try:
            with trio.fail_after(EDIT_WITHIN), calling(self._connection):
                await link.edit(self._chat.chat_id, message_id, body.text, body.preformatted)
        except (OutcomeUnknown, trio.TooSlowError) as error:
            raise NotSent(f"The edit is made again: {error}") from error  # saying the same twice is once
        except Refused as error:
            if body.only_closes or isinstance(error, ChatGone):
                raise
            return False
        return True

    async def _found(self, link: Link, row: OutboxRow, body: Body) -> str | None:
        """The id of the message that has grown and is closed by this row, which nobody here knows. It is
        asked for; the same key again shows the message or does nothing, and tells the id too."""
        assert body.closes is not None  # noqa: S101 - the caller looked
        traits = self._connection.adapter.traits
        if traits.finds:
            return await link.find(self._chat.chat_id, body.closes)
        if traits.takes_keys:
            return await link.send(outgoing(replace(row.owed, delivery_key=body.closes), body.part))
        return None

    async def _placed(self, link: Link, row: OutboxRow, key: str) -> str | None:
        """The id of a message that was sent for this row and says nothing yet; None if too many were lost."""
        if await self._database.read(outbox.attempts_at, key) >= MOST_PLACEHOLDERS:
            return None
        placeholder = self._connection.adapter.traits.placeholder
        try:
            return await self.begin(link, replace(row.owed, delivery_key=key), placeholder)
        except OutcomeUnknown as error:
            raise NotSent(f"Of the answer nothing was sent: {error}") from error

    async def begin(self, link: Link, row: Owed, text: str) -> str | None:
        """Send a message that is going to grow, and store its id before it is ever edited."""
        outbox_id = await self._database.write(outbox.begin_stream, row, self._world.time())
        try:
            with calling(self._connection):
                message_id = await link.send(outgoing(row, Part(text), grows=True))
        except (NotSent, Refused) as error:
            # Cancelled in this moment it stays unsure, which costs no more than the mark of a repeat.
            await self._database.write(outbox.note_failure, outbox_id, self._connection.problem(error))  # noqa: ASYNC120
            raise
        await self.note_receipt(outbox_id, message_id)
        return message_id

    async def note_receipt(self, outbox_id: int, receipt: str | None) -> None:
        """This has arrived, and that is its id."""
        self._receipts[outbox_id] = receipt
        await self._store_receipt(outbox_id)

    async def _store_receipt(self, outbox_id: int) -> None:
        await self._database.write(
            outbox.note_receipt, outbox_id, self._receipts[outbox_id], self._world.time()
        )
        del self._receipts[outbox_id]


def _marked(parts: list[Part], traits: Traits) -> list[Part]:
    """The same, marked as a possible repeat. A text is divided anew, for the mark may not fit in; a question
    that is shown exactly has left room for it."""
    first, *others = parts
    if not others and not first.preformatted:
        return [Part(text) for text in chunks(POSSIBLY_REPEATED + first.text, traits)]
    by = len(POSSIBLY_REPEATED)
    moved = tuple((start + by, end + by) for start, end in first.preformatted)
    return [Part(POSSIBLY_REPEATED + first.text, moved), *others]


def outgoing(row: Owed, part: Part, *, grows: bool = False) -> Outgoing:
    """The message that an owed row is, or a part of it."""
    return Outgoing(
        chat_id=row.chat_id,
        text=part.text,
        preformatted=part.preformatted,
        key=row.delivery_key,
        thread_id=row.thread_id,
        reply_to=row.reply_to,
        grows=grows,
    )


def link_can_tell(connection: Connection) -> bool:
    """Whether an unknown outcome can be cleared up at once, without repeating anything visibly."""
    traits = connection.adapter.traits
    return traits.finds or traits.takes_keys
