"""The lane of a chat: the only one who sends there, one thing after the other.

Three kinds of things come along. *Notices* are said once and forgotten. A *stream* is a message that
grows while an answer is written: only its newest text counts, and it is edited no more often than the
interval says. *Owed rows* are what the outbox holds; how they are delivered is said in `delivery`.

A flood wait holds the whole lane, whatever call was refused: until it is over nothing is sent or edited in
the chat, for each call within it would be refused too, and may make the wait longer.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import trio
import trio.lowlevel

from ...base.errors import StoreError
from ...base.world import World
from ...log import Log
from ...platform.contract import ChatGone, FloodWait, Link, LinkLost, Outgoing, PlatformError
from ...state.db.database import Database
from ...state.tables import dead_chats
from ..links.link import Connection, calling
from .delivery import FIRST_RETRY, SEND_WITHIN, Deliveries
from .rows import Body, Chat, Stream, owed

NOTICE_WITHIN = 5.0
STORE_AGAIN_AFTER = 30.0

log = Log(__name__)


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
        self._held_until = 0.0
        self._owed = Deliveries(chat, connection, database, world, dead, closes=self._close, floods=self.hold)
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
        """Let the growing message say this, as soon as it may. The space around it is no part of it: the
        answer will have none, and a model that began with a line break would have said something else."""
        stream.text = text.strip()
        if not stream.closed and stream.text:
            self._streams[stream.key] = stream
            self._wake()

    @property
    def held_for(self) -> float:
        """Seconds until a flood wait of this chat is over; 0 without one."""
        return max(self._held_until - trio.current_time(), 0.0)

    def hold(self, seconds: float) -> None:
        """Send nothing for this long: the platform has asked for a pause in this chat."""
        self._held_until = max(self._held_until, trio.current_time() + seconds)

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
                    self._owed.connected()
                    continue
                if not self._busy() and not self.held_for and leave():
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
        wait = await self._send(link) if self.chat not in self._dead else None
        if self.chat in self._dead:
            await self._keep_silent()
            return None
        return wait

    async def _send(self, link: Link) -> float | None:
        await self._owed.store_receipts()
        wait = await self._send_unless_held(link) if not self.held_for else None
        return self.held_for or wait

    async def _send_unless_held(self, link: Link) -> float | None:
        """Send what can go now; a flood wait ends this early."""
        while self._notices and self.chat not in self._dead and not self.held_for:
            await self._say(link, *self._notices.popleft())
        if self.held_for:
            return None
        early = self._deliver_at - trio.current_time()
        if self._owes and early <= 0:
            self._owes = False
            wait = await self._owed.deliver_all(link)
            if wait is not None:
                self._owes, self._deliver_at = True, trio.current_time() + wait
                return wait
        if self._owes:
            return max(early, 0.0)
        streams = list(self._streams.values())
        waits = [wait for one in streams if not self.held_for and (wait := await self._show(link, one))]
        return min(waits, default=None)

    def _close(self, key: str) -> None:
        """A growing message is closed by what is owed now."""
        stream = self._streams.pop(key, None)
        if stream is not None:
            stream.closed = True

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
            with trio.move_on_after(NOTICE_WITHIN), calling(self._connection):
                await link.send(message)
        except FloodWait as flood:
            self.hold(flood.seconds)
            self._notices.appendleft((text, thread_id, reply_to))
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
                else:
                    with calling(self._connection):
                        await link.edit(self.chat.chat_id, stream.message_id, text + stream.cursor)
                    stream.shown = text + stream.cursor
        except FloodWait as flood:
            stream.interval *= 2
            self.hold(flood.seconds)
        except (PlatformError, trio.TooSlowError) as error:
            # The answer itself comes by the outbox; a message that cannot grow is left alone.
            log.warning("a message stopped growing", chat=self.chat.chat_id, error=str(error))
            stream.closed = True
            self._note_death(error)

    async def _begin(self, link: Link, stream: Stream, text: str) -> None:
        """Send the message that will grow, and store its id before it is ever edited."""
        placeholder = self._connection.adapter.traits.placeholder
        row = owed(self.chat, stream.key, Body(text), thread_id=stream.thread_id, reply_to=stream.reply_to)
        try:
            stream.message_id = await self._owed.begin(link, row, placeholder or text)
        except StoreError:
            stream.closed = True  # it may be there, and is not sent twice: the answer finds it by its receipt
            raise
        stream.shown = placeholder or text
        if stream.message_id is None:
            stream.closed = True
        elif placeholder:
            stream.next_at = trio.current_time()  # nobody has seen anything yet

    def _note_death(self, error: Exception) -> None:
        if isinstance(error, ChatGone):
            self._dead[self.chat] = self._connection.problem(error)
