"""The lane of a chat: the only one who sends there, one thing after the other.

Three kinds of things come along. *Notices* are said once and forgotten. A *stream* is a message that
grows while an answer is written: only its newest text counts, and it is edited no more often than the
interval says. *Owed rows* are what the outbox holds: the attempt is recorded before the send and the
receipt after it, so that at any moment it is known what is known.

A row whose send has an unknown outcome is never sent again blindly: where the platform can be asked it
is asked, where it takes keys the same key goes again, and otherwise it is sent once more by a later
attempt, visibly marked.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import msgspec
import structlog
import trio
import trio.lowlevel

from ..errors import StoreError
from ..messages import SessionSource
from ..platform import (
    ChatGone,
    FloodWait,
    Link,
    LinkLost,
    NotSent,
    OutcomeUnknown,
    Outgoing,
    PlatformError,
    Refused,
)
from ..state import dead_chats, outbox
from ..state.database import Database
from ..state.outbox import Delivery, OutboxState, Owed
from ..world import World
from .chunks import chunks
from .link import Connection

MAX_ATTEMPTS = 3
NOTICE_WITHIN = 5.0
SEND_WITHIN = 60.0
FIRST_RETRY = 2.0
STORE_AGAIN_AFTER = 30.0
POSSIBLY_REPEATED = "♻ Possibly a repeat:\n"

log = structlog.wrap_logger(logging.getLogger(__name__))


class Chat(NamedTuple):
    """Where something is sent."""

    platform: str
    account: str
    chat_id: str

    @classmethod
    def of(cls, source: SessionSource) -> Chat:
        """Where an answer to this goes."""
        return cls(source.platform, source.account, source.chat_id)


class Body(msgspec.Struct, frozen=True, omit_defaults=True):
    """What an outbox row says. JSON in the row; read by the lane alone."""

    text: str
    closes: str | None = None
    """The delivery key of the streamed message that this text replaces, if that was ever sent."""
    only_closes: bool = False
    """There is nothing to say but to close that message."""


def owed(chat: Chat, key: str, body: Body, *, thread_id: str | None = None, **of: object) -> Owed:
    """An outbox row for this chat."""
    text = msgspec.json.encode(body).decode()
    return Owed(key, *chat, body=text, thread_id=thread_id, **of)  # type: ignore[arg-type]


def stream_key(run_id: str) -> str:
    """The delivery key of the message that grows while this run is answered."""
    return f"{run_id}:stream"


@dataclass(slots=True)
class Stream:
    """A message that grows. The turn sets its text; the lane shows it."""

    key: str
    thread_id: str | None
    cursor: str = ""
    """Stands behind the text while more is to come. Not in the first send: until its receipt is stored,
    nobody may be able to take it away again."""
    text: str = ""
    shown: str = ""
    message_id: str | None = None
    next_at: float = 0.0
    interval: float = 0.8
    closed: bool = False

    @property
    def up_to_date(self) -> bool:
        """Whether there is nothing to edit."""
        return self.closed or self.shown == self.text + self.cursor


class Lane:
    """One chat's way out. Its task runs in the lanes' nursery and ends when it is idle."""

    def __init__(
        self, chat: Chat, connection: Connection, database: Database, world: World, dead: dict[Chat, str]
    ) -> None:
        self.chat = chat
        self._connection, self._database, self._world = connection, database, world
        self._dead = dead
        self._notices: deque[tuple[str, str | None, str | None]] = deque()
        self._streams: dict[str, Stream] = {}
        self._owes = False
        self._deliver_at = 0.0
        self._unsure: set[int] = set()
        self._receipts: dict[int, str | None] = {}
        """What has arrived and is not stored yet."""
        self._hint = trio.Event()
        self._flushed = trio.Event()

    # --- what others ask of it; none of it waits ---

    @property
    def edits(self) -> bool:
        """Whether a message that was sent here can be changed."""
        return self._connection.adapter.traits.edits

    def notice(self, text: str, *, thread_id: str | None = None, reply_to: str | None = None) -> None:
        """Say something once. It is not stored and may be lost."""
        self._notices.append((text, thread_id, reply_to))
        self._wake()

    def show(self, stream: Stream, text: str) -> None:
        """Let the growing message say this, as soon as it may."""
        stream.text = text
        if not stream.closed and text.strip():
            self._streams[stream.key] = stream
            self._wake()

    def deliver(self) -> None:
        """There is something in the outbox for this chat."""
        self._owes = True
        self._wake()

    def _wake(self) -> None:
        self._flushed = trio.Event() if self._flushed.is_set() else self._flushed
        self._hint.set()

    async def flushed(self) -> None:
        """Wait until there is nothing left that can go now."""
        self._hint.set()
        await self._flushed.wait()

    # --- its task ---

    async def run(self, *, leave: Callable[[], bool], idle: float = 60.0) -> None:
        """Send what there is, until `leave`, asked when nothing has happened for `idle` seconds, says
        that nobody needs the lane any more."""
        while True:
            link = self._connection.link
            if link is None:
                self._flushed.set()
                with trio.move_on_after(idle):
                    await self._connection.up()
                    self._owes = True
                    self._unsure.clear()
                    continue
                if not self._busy() and leave():
                    return
                continue
            self._hint = trio.Event()
            try:
                wait = await self._go_on(link)
            except LinkLost:
                await trio.lowlevel.checkpoint()
                wait = FIRST_RETRY
            except StoreError as error:  # the disk is full, say: what we did is not forgotten
                log.error("a delivery waits for the disk", chat=self.chat.chat_id, error=str(error))
                self._owes, wait = True, STORE_AGAIN_AFTER
            # What is tried again later, or waits out a flood, is nothing that can go now.
            if (wait is None or wait >= FIRST_RETRY) and not self._hint.is_set():
                self._flushed.set()
            if await self._nothing_for(idle if wait is None else wait) and wait is None and leave():
                return

    def _busy(self) -> bool:
        return bool(self._notices or self._owes or self._streams)

    async def _nothing_for(self, seconds: float) -> bool:
        with trio.move_on_after(seconds):
            await self._hint.wait()
        return not self._hint.is_set()  # it may have been set in the very moment patience ended

    async def _go_on(self, link: Link) -> float | None:
        """Do what can be done now. Returns the seconds until there may be more; None for no more."""
        for outbox_id in list(self._receipts):
            await self._store_receipt(outbox_id)
        while self._notices and self.chat not in self._dead:
            await self._say(link, *self._notices.popleft())
        if self.chat in self._dead:
            await self._keep_silent()
            return None
        early = self._deliver_at - trio.current_time()
        if self._owes and early <= 0:
            self._owes = False
            wait = await self._deliver_all(link)
            if wait is not None:
                self._owes, self._deliver_at = True, trio.current_time() + wait
                return wait
        if self._owes:
            return max(early, 0.0)
        waits = [wait for stream in list(self._streams.values()) if (wait := await self._show(link, stream))]
        return min(waits, default=None)

    async def _keep_silent(self) -> None:
        """Nothing can be sent here any more: it is given up what was to be."""
        self._notices.clear()
        for stream in self._streams.values():
            stream.closed = True
        self._streams.clear()
        self._owes = False
        reason = self._dead[self.chat]
        await self._database.write(dead_chats.mark, *self.chat, reason=reason, at=self._world.time())

    async def _show(self, link: Link, stream: Stream) -> float | None:
        """Bring a growing message up to date. Returns the seconds until it may be edited again."""
        if not stream.up_to_date:
            if (early := stream.next_at - trio.current_time()) > 0:
                return early
            await self._grow(link, stream)
        if stream.up_to_date:
            self._streams.pop(stream.key, None)
            return None
        return max(stream.next_at - trio.current_time(), 0.001)

    async def _say(self, link: Link, text: str, thread_id: str | None, reply_to: str | None) -> None:
        message = Outgoing(
            chat_id=self.chat.chat_id,
            text=text,
            key=self._world.new_id(),
            thread_id=thread_id,
            reply_to=reply_to,
            silent=True,
        )
        try:
            with trio.move_on_after(NOTICE_WITHIN):
                await link.send(message)
        except PlatformError as error:
            log.warning("a notice was not sent", chat=self.chat.chat_id, error=str(error))
            self._note_death(error)

    async def _grow(self, link: Link, stream: Stream) -> None:
        text = stream.text
        stream.next_at = trio.current_time() + stream.interval
        try:
            with trio.fail_after(SEND_WITHIN):
                if stream.message_id is None:
                    await self._begin(link, stream, text)
                    stream.shown = text
                else:
                    await link.edit(self.chat.chat_id, stream.message_id, text + stream.cursor)
                    stream.shown = text + stream.cursor
        except FloodWait as flood:
            stream.interval *= 2
            stream.next_at = trio.current_time() + flood.seconds
        except (PlatformError, trio.TooSlowError) as error:
            # The answer itself comes by the outbox; a message that cannot grow is left alone.
            log.warning("a message stopped growing", chat=self.chat.chat_id, error=str(error))
            stream.closed = True
            self._note_death(error)

    async def _begin(self, link: Link, stream: Stream, text: str) -> None:
        """Send the message that will grow, and store its id before it is ever edited."""
        row = owed(self.chat, stream.key, Body(text), thread_id=stream.thread_id)
        outbox_id = await self._database.write(outbox.begin_stream, row, self._world.time())
        try:
            message_id = await link.send(self._outgoing(row, text, grows=True))
        except (NotSent, Refused) as error:
            # Cancelled in this moment it stays unsure, which costs no more than the mark of a repeat.
            await self._database.write(outbox.note_failure, outbox_id, str(error))  # noqa: ASYNC120
            raise
        stream.message_id = message_id
        await self._note_receipt(outbox_id, message_id)
        if message_id is None:
            stream.closed = True

    async def _note_receipt(self, outbox_id: int, receipt: str | None) -> None:
        self._receipts[outbox_id] = receipt
        await self._store_receipt(outbox_id)

    async def _store_receipt(self, outbox_id: int) -> None:
        await self._database.write(
            outbox.note_receipt, outbox_id, self._receipts[outbox_id], self._world.time()
        )
        del self._receipts[outbox_id]

    def _outgoing(self, row: Owed, text: str, *, grows: bool = False) -> Outgoing:
        return Outgoing(
            chat_id=row.chat_id,
            text=text,
            key=row.delivery_key,
            thread_id=row.thread_id,
            reply_to=row.reply_to,
            grows=grows,
        )

    async def _deliver_all(self, link: Link) -> float | None:
        """Deliver what is owed, in order. Returns the seconds to wait before trying again."""
        for row in await self._database.read(outbox.undelivered_to, *self.chat):
            if row.outbox_id in self._unsure:
                continue
            if self.chat in self._dead:
                break
            wait = await self._deliver(link, row)
            if wait is not None:
                return wait
        return None

    async def _deliver(self, link: Link, row: Delivery) -> float | None:
        write, now = self._database.write, self._world.time
        body = msgspec.json.decode(row.owed.body, type=Body)
        if (stream := self._streams.pop(body.closes or "", None)) is not None:
            stream.closed = True
        try:
            with trio.fail_after(SEND_WITHIN):
                receipt = await self._arrived(link, row, body)
            await self._note_receipt(row.outbox_id, receipt)
        except FloodWait as flood:
            await self._note_failure(row, flood)
            return float(flood.seconds)
        except (NotSent, LinkLost) as error:
            if row.attempts + 1 >= MAX_ATTEMPTS:
                await write(outbox.give_up, row.outbox_id, str(error), now())
                log.error("gave up a delivery", chat=self.chat.chat_id, error=str(error))
                return None
            await self._note_failure(row, error)
            return FIRST_RETRY * 2.0**row.attempts
        except (OutcomeUnknown, trio.TooSlowError) as error:
            log.warning("nobody knows whether a message arrived", chat=self.chat.chat_id)
            if link_can_tell(self._connection):
                return FIRST_RETRY
            self._unsure.add(row.outbox_id)
            if row.attempts + 1 >= MAX_ATTEMPTS:
                await write(outbox.give_up, row.outbox_id, str(error), now())
        except Refused as error:
            log.error("gave up a delivery", chat=self.chat.chat_id, error=str(error))
            self._note_death(error)
            if self.chat not in self._dead:
                await write(outbox.give_up, row.outbox_id, f"the platform refuses it: {error}", now())
        return None

    def _note_death(self, error: Exception) -> None:
        if isinstance(error, ChatGone):
            self._dead[self.chat] = str(error)
            self._hint.set()

    async def _note_failure(self, row: Delivery, error: PlatformError) -> None:
        """This attempt surely did not arrive. Of an earlier one whose outcome is unknown that says
        nothing: such a row stays unsure."""
        if row.state is OutboxState.OWED:
            await self._database.write(outbox.note_failure, row.outbox_id, str(error))

    async def _arrived(self, link: Link, row: Delivery, body: Body) -> str | None:
        """See to it that this row has arrived; returns its id there."""
        traits = self._connection.adapter.traits
        chat_id, key = self.chat.chat_id, row.owed.delivery_key
        unsure = row.state is OutboxState.ATTEMPTING
        if body.closes is not None:
            lost = await self._database.read(outbox.is_unsure, body.closes)
            message_id = await self._grown(link, row, body, lost=lost)
            if message_id is not None:
                await self._database.write(outbox.note_attempt, row.outbox_id, self._world.time())
                await link.edit(chat_id, message_id, body.text)  # saying the same twice is once
                return message_id
            if body.only_closes and (traits.finds or not lost):
                return None
            unsure = unsure or lost
        texts = [body.text]
        if unsure:
            if traits.finds and (message_id := await link.find(chat_id, key)) is not None:
                return message_id
            if not link_can_tell(self._connection):
                texts = chunks(POSSIBLY_REPEATED + body.text, traits)  # the mark may not fit in
        await self._database.write(outbox.note_attempt, row.outbox_id, self._world.time())
        for text in texts:
            message_id = await link.send(self._outgoing(row.owed, text))
        return message_id

    async def _grown(self, link: Link, row: Delivery, body: Body, *, lost: bool) -> str | None:
        """The id of the message that has grown and is closed by this row. Where that was lost, it is
        asked for; the same key again shows the message or does nothing, and tells the id too."""
        assert body.closes is not None  # noqa: S101 - the caller looked
        if not lost:
            return await self._database.read(outbox.receipt_of, body.closes)
        traits = self._connection.adapter.traits
        if traits.finds:
            return await link.find(self.chat.chat_id, body.closes)
        if traits.takes_keys:
            return await link.send(self._outgoing(replace(row.owed, delivery_key=body.closes), body.text))
        return None


def link_can_tell(connection: Connection) -> bool:
    """Whether an unknown outcome can be cleared up at once, without repeating anything visibly."""
    traits = connection.adapter.traits
    return traits.finds or traits.takes_keys
