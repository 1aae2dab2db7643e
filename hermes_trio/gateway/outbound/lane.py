"""The lane of a chat: the one task that sends there, one message after the other.

It sends three kinds of messages. A *notice* is sent once and not stored. A *stream* is a message or a draft
that grows while an answer is written: only its newest text counts, and it is shown at most once per interval.
*Owed rows* stand in the outbox; `delivery` says how one of them is delivered.

A flood wait holds the whole lane, whichever call was refused. Until it is over nothing is sent or edited in
the chat: the platform would refuse each call, and might extend the wait.

It may touch the link of its chat and, through `delivery`, the outbox.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

import trio
import trio.lowlevel

from ...base.errors import ForeignChat, StoreError
from ...base.pulse import Wakeup
from ...base.world import World
from ...log import Log
from ...platform.contract import (
    ChatGone,
    Draft,
    FloodWait,
    Link,
    LinkLost,
    Outgoing,
    PlatformError,
    Refused,
)
from ...state.db.database import Database
from ..links.link import Connection, calling
from .delivery import FIRST_RETRY, SEND_WITHIN, Delivery
from .gone_chats import GoneChats
from .rows import Body, Chat, owed

NOTICE_WITHIN = 5.0
STORE_AGAIN_AFTER = 30.0
DRAFT_AGAIN_AFTER = 20.0
"""A draft of Telegram disappears after 30 seconds."""

log = Log(__name__)


@dataclass(slots=True)
class Stream:
    """A message that grows. A turn sets its text through `Lane.show`; the lane sends and edits it."""

    key: str
    thread_id: str | None
    reply_to: str | None = None
    cursor: str = ""
    """Text after the newest words while more are to come. The first send has none: until its receipt is
    stored, nobody could remove it again."""
    text: str = ""
    shown: str = ""
    message_id: str | None = None
    next_at: float = 0.0
    interval: float = 0.8
    closed: bool = False
    draft: int = 0
    """Number of the draft in which it is shown; 0 for a message that is edited."""
    due_at: float = -math.inf
    """Time at which a draft has to be shown again, or it would disappear."""

    @property
    def up_to_date(self) -> bool:
        """True if no edit is due."""
        if self.closed or self._is_fading:
            return self.closed
        return self.shown == self.text + self.cursor or not (self.text or self.draft)

    @property
    def is_done(self) -> bool:
        """True if nothing has to be done before it changes."""
        return self.closed or (self.up_to_date and not self.draft)

    @property
    def _is_fading(self) -> bool:
        return self.draft != 0 and trio.current_time() >= self.due_at

    def close(self) -> None:
        """Never send or edit it again."""
        self.closed = True


class Lane:
    """The way out to one chat. Its task runs in the lanes' nursery and ends when it is idle."""

    def __init__(
        self,
        chat: Chat,
        connection: Connection,
        database: Database,
        world: World,
        gone: GoneChats,
        owner: str | None,
    ) -> None:
        self.chat = chat
        self._connection, self._world, self._gone = connection, world, gone
        self._notices: deque[tuple[str, str | None, str | None]] = deque()
        self._taken_in: deque[str] = deque()
        """Messages of people to mark as taken in."""
        self._streams: dict[str, Stream] = {}
        self._owes = False
        self._deliver_at = 0.0
        self._held_until = 0.0
        self._delivery = Delivery(chat, connection, database, world, owner)
        self._hint = Wakeup()
        self._flushed = Wakeup()
        """Set while nothing is left that can be sent now."""

    # --- for other tasks; none of these waits ---

    @property
    def edits(self) -> bool:
        """True if sent messages can be changed here."""
        return self._connection.adapter.traits.edits

    def notice(self, text: str, *, thread_id: str | None = None, reply_to: str | None = None) -> None:
        """Send a text once. It is not stored and may be lost."""
        self._notices.append((text, thread_id, reply_to))
        self._wake()

    def mark(self, message_id: str) -> None:
        """Mark a message of a person as taken in. The mark may be lost."""
        self._taken_in.append(message_id)
        self._wake()

    def show(self, stream: Stream, text: str) -> None:
        """Set the text of a stream, and show it as soon as the interval allows. Space around the text is left
        out: the final answer has none, and some models begin with a line break."""
        stream.text = text.strip()
        if not stream.closed and (stream.text or stream.draft):
            self._streams[stream.key] = stream
            self._wake()

    @property
    def held_for(self) -> float:
        """Seconds until the flood wait of this chat is over; 0 without one."""
        return max(self._held_until - trio.current_time(), 0.0)

    def hold(self, seconds: float) -> None:
        """Send nothing for this long: the platform demanded a pause in this chat."""
        self._held_until = max(self._held_until, trio.current_time() + seconds)

    def deliver(self) -> None:
        """Look into the outbox: it has a new row for this chat."""
        self._owes = True
        self._wake()

    def _wake(self) -> None:
        self._flushed.clear()
        self._hint.set()

    async def flushed(self) -> None:
        """Wait until nothing is left that can be sent now."""
        self._hint.set()
        await self._flushed.wait()

    # --- the task ---

    async def run(self, *, leave: Callable[[], bool], idle: float = 60.0) -> None:
        """Send until `leave` returns True. `leave` is asked when nothing has happened for `idle` seconds."""
        while True:
            link = self._connection.link
            if link is None:
                self._flushed.set()
                with trio.move_on_after(idle):
                    await self._connection.up()
                    self._owes = True
                    self._delivery.reconnected()
                    continue
                if not self._busy() and not self.held_for and leave():
                    return
                continue
            self._hint.clear()
            try:
                wait = await self._send_all(link)
            except LinkLost:
                await trio.lowlevel.checkpoint()
                wait = FIRST_RETRY
            except ForeignChat:  # what is owed here is sent by its owner
                wait = None
                with suppress(StoreError):
                    await self._delivery.hint_owner()
            except StoreError as error:  # a full disk, for example; receipts are kept in memory
                log.error("delivery not stored; retrying", chat=self.chat.chat_id, error=str(error))
                self._owes, wait = True, STORE_AGAIN_AFTER
            # A later retry and a flood wait are not work that can be done now.
            if (wait is None or wait >= FIRST_RETRY) and not self._hint.is_set():
                self._flushed.set()
            if await self._nothing_for(idle if wait is None else wait) and wait is None and leave():
                return

    def _busy(self) -> bool:
        return bool(self._taken_in or self._notices or self._owes or self._streams)

    async def _nothing_for(self, seconds: float) -> bool:
        with trio.move_on_after(seconds):
            await self._hint.wait()
        return not self._hint.is_set()  # it may have been set in the same moment in which the wait timed out

    async def _send_all(self, link: Link) -> float | None:
        """Send everything that can be sent now. Return the seconds until there may be more; None for
        never."""
        if self.chat in self._gone.reasons:
            await self._discard()
            return None
        try:
            if self._delivery.receipts:
                await self._delivery.store_receipts()
            wait = await self._send(link) if not self.held_for else None
        except FloodWait as flood:
            self._owes = True
            self.hold(flood.seconds)
            return self.held_for
        except ChatGone as error:
            self._gone.add(self.chat, self._connection.problem(error))
            await self._discard()
            return None
        return self.held_for or wait

    async def _send(self, link: Link) -> float | None:
        """Send marks, then notices, then owed rows, then streams. Raises `FloodWait` and `ChatGone`."""
        while self._taken_in:
            await self._mark(link, self._taken_in.popleft())
        while self._notices:
            await self._send_notice(link, *self._notices.popleft())
        early = self._deliver_at - trio.current_time()
        if self._owes and early <= 0:
            self._owes = False
            wait = await self._deliver_owed(link)
            if wait is not None:
                self._owes, self._deliver_at = True, trio.current_time() + wait
                return wait
        if self._owes:
            return max(early, 0.0)
        waits = [wait for one in list(self._streams.values()) if (wait := await self._show(link, one))]
        return min(waits, default=None)

    async def _deliver_owed(self, link: Link) -> float | None:
        """Deliver the owed rows in order. Return the seconds until the next try; None if nothing is left."""
        try:
            for row, body in await self._delivery.due():
                if body.closes is not None and (stream := self._streams.pop(body.closes, None)) is not None:
                    stream.close()
                wait = await self._delivery.deliver(link, row, body)
                if wait is not None:
                    return wait
        finally:
            # A receipt is stored with the attempt at the next row; this is the last one. Even a cancelled
            # task has it stored.
            if self._delivery.receipts:
                await self._delivery.store_receipts()  # noqa: ASYNC102
        return min((at - trio.current_time() for at in self._delivery.unsure.values()), default=None)

    async def _discard(self) -> None:
        """Drop what was to be sent, and store that the chat is gone."""
        self._notices.clear()
        self._taken_in.clear()
        for stream in self._streams.values():
            stream.close()
        self._streams.clear()
        self._owes = False
        await self._gone.store(self.chat)

    async def _mark(self, link: Link, message_id: str) -> None:
        try:
            with trio.move_on_after(NOTICE_WITHIN), calling(self._connection):
                await link.react(self.chat.chat_id, message_id)
        except (FloodWait, ChatGone):
            raise
        except PlatformError as error:
            log.info("message not marked as taken in", chat=self.chat.chat_id, error=str(error))

    async def _send_notice(self, link: Link, text: str, thread_id: str | None, reply_to: str | None) -> None:
        message = Outgoing(
            chat_id=self.chat.chat_id,
            text=text,
            key=self._world.new_id(),
            thread_id=thread_id,
            reply_to=reply_to,
            silent=True,
        )
        try:
            with trio.move_on_after(NOTICE_WITHIN), calling(self._connection):
                await link.send(message)
        except FloodWait:
            self._notices.appendleft((text, thread_id, reply_to))
            raise
        except PlatformError as error:
            log.warning("notice not sent", chat=self.chat.chat_id, error=str(error))
            if isinstance(error, ChatGone):
                raise

    async def _show(self, link: Link, stream: Stream) -> float | None:
        """Bring a stream up to date. Return the seconds until it may be edited again."""
        if not stream.up_to_date:
            if (early := stream.next_at - trio.current_time()) > 0:
                return early
            await self._grow(link, stream)
        if stream.is_done:
            self._streams.pop(stream.key, None)
            return None
        return max((stream.due_at if stream.up_to_date else stream.next_at) - trio.current_time(), 0.001)

    async def _grow(self, link: Link, stream: Stream) -> None:
        text = stream.text
        stream.next_at = trio.current_time() + stream.interval
        try:
            with trio.fail_after(SEND_WITHIN):
                if stream.draft:
                    await self._show_draft(link, stream, text)
                elif stream.message_id is None:
                    await self._begin(link, stream, text)
                else:
                    with calling(self._connection):
                        await link.edit(self.chat.chat_id, stream.message_id, text + stream.cursor)
                    stream.shown = text + stream.cursor
        except FloodWait:
            stream.interval *= 2
            raise
        except (PlatformError, trio.TooSlowError) as error:
            # The answer itself comes from the outbox; a stream that cannot be edited is left alone.
            log.warning(
                "stream not edited; waiting for the whole answer", chat=self.chat.chat_id, error=str(error)
            )
            stream.close()
            if isinstance(error, ChatGone):
                raise

    async def _show_draft(self, link: Link, stream: Stream, text: str) -> None:
        """Show a draft. A chat that refuses it gets a message that is edited, from the first words on."""
        draft = Draft(chat_id=self.chat.chat_id, number=stream.draft, text=text, thread_id=stream.thread_id)
        stream.due_at = trio.current_time() + DRAFT_AGAIN_AFTER
        try:
            with calling(self._connection):
                await link.draft(draft)
        except ChatGone:
            raise
        except Refused as error:
            log.info("draft refused; editing a message", chat=self.chat.chat_id, error=str(error))
            stream.draft, stream.closed = 0, not self.edits
            return
        stream.shown = text + stream.cursor

    async def _begin(self, link: Link, stream: Stream, text: str) -> None:
        """Send the first message of a stream, and store its id before it is ever edited."""
        placeholder = self._connection.adapter.traits.placeholder
        row = owed(self.chat, stream.key, Body(text), thread_id=stream.thread_id, reply_to=stream.reply_to)
        try:
            stream.message_id = await self._delivery.begin(link, row, placeholder or text)
        except StoreError:
            stream.close()  # it may have arrived and is not sent twice: the answer finds it by its receipt
            raise
        stream.shown = placeholder or text
        if stream.message_id is None:
            stream.close()
        elif placeholder:
            stream.next_at = trio.current_time()  # nobody has seen any text yet
