"""The mailbox: a message is stored, its session is woken, the busy mode applies, and the sender is told if
the message has to wait. Chats and requests use the same steps.

It may touch the inbox, the sessions and the open questions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from ...base.messages import MessageEvent
from ...state.db.engine import Db
from ...state.rules.ownership import is_own, store_or_tell, tell_owner
from ...state.tables import inbox
from ...state.tables.inbox import Stored
from ..ending.control import Control
from ..home.open_home import Home
from ..links.access import Access
from ..outbound import texts
from ..outbound.chats import Chats
from ..outbound.rows import Chat
from ..session.session import Mode
from ..session.work import Work
from ..turn.open_question import OpenQuestion
from ..turn.questions import give_answer

MOST_WAITING = 32
"""Limit of messages that wait in a session."""


class SeenBefore(Exception):
    """The event was stored earlier."""


@dataclass(frozen=True, slots=True)
class Mailbox:
    """Puts messages into the inboxes of sessions."""

    home: Home
    chats: Chats
    control: Control
    access: Access
    work: Work

    async def store(self, key: str, event: MessageEvent, *, message_key: str | None = None) -> Stored:
        """Store a message that waits for a turn. At the limit it is stored as done, and `crowded_out`."""
        home = self.home
        return await home.database.write(
            inbox.store,
            event,
            session_key=key,
            own_key=home.world.new_id(),
            at=home.world.time(),
            message_key=message_key,
            most=MOST_WAITING,
        )

    async def store_or_tell(self, key: str, event: MessageEvent) -> Stored | None:
        """Store a message as `store` does. Return None if another gateway owns the chat: it was stored for
        that one."""
        home = self.home
        if home.owner is None:
            return await self.store(key, event)
        own_key, at = home.world.new_id(), home.world.time()
        return await home.database.write(
            store_or_tell, home.owner, event, session_key=key, own_key=own_key, at=at, most=MOST_WAITING
        )

    async def store_done(self, key: str, event: MessageEvent) -> Stored:
        """Store an event that waits for no turn, so that it is recognised when it comes again."""
        return await self.home.database.write(self._storing_done(key, event))

    async def told_owner(self, key: str, event: MessageEvent) -> bool:
        """Store an event for the gateway that owns its chat. Return False if that is this one."""
        home = self.home
        if home.owner is None:
            return False
        if await home.database.read(is_own, home.owner, event):
            return False
        own_key, at = home.world.new_id(), home.world.time()
        return await home.database.write(
            tell_owner, home.owner, event, session_key=key, own_key=own_key, at=at
        )

    def storing_once(self, key: str, event: MessageEvent) -> Callable[[Db], None]:
        """Return a step that stores an event as `store_done` does, for the transaction of its effect. The
        step raises `SeenBefore`."""
        store = self._storing_done(key, event)

        def step(db: Db) -> None:
            if store(db).seen_before:
                raise SeenBefore

        return step

    def _storing_done(self, key: str, event: MessageEvent) -> Callable[[Db], Stored]:
        own_key, at = self.home.world.new_id(), self.home.world.time()
        return partial(inbox.store, event=event, session_key=key, own_key=own_key, at=at, done=True)

    async def answer(self, key: str, inbox_id: int, event: MessageEvent) -> bool:
        """Give a stored message as the answer to the first open question that it answers and that its sender
        may answer. It then belongs to the asking turn. Return False if there is none."""
        if event.kind == "internal":
            return False
        for question in self.work.running.open_questions(key):
            answer = question.answer_in(event.text)
            if answer is not None and await self.may_answer(event, question):
                by = event.source.participant or ""
                return await give_answer(self.home, question, answer, by=by, inbox_id=inbox_id)
        return False

    async def may_answer(self, event: MessageEvent, question: OpenQuestion) -> bool:
        """Return True if the sender may answer this question: an approval needs a right of its own."""
        return question.kind == "question" or await self.access.may_approve(event.source, question.asked_of)

    def meet(self, key: str, event: MessageEvent, stored: Stored, mode: Mode) -> str | None:
        """Wake the session of a stored message and apply the busy mode. Return the text to tell its sender,
        if it has to wait."""
        if stored.crowded_out:
            self.chats.reply(event, texts.crowded_out(MOST_WAITING))  # always told: the message is dropped
            return None
        session = self.work.sessions.wake(key)
        if session is None:
            if self.control.hands_over:
                return None  # the successor takes it up in a moment
            return texts.waits_for_restart() if self.control.current is not None else texts.waits_for_drain()
        return session.meet(event, stored.inbox_id, mode)

    def tell(self, key: str, event: MessageEvent, text: str) -> None:
        """Tell a sender that the message waits: at most every half minute in a session, and once in a chat
        while no turn may begin."""
        session = self.work.sessions.wake(key)
        if session.may_tell() if session is not None else self.chats.may_tell_of_pause(Chat.of(event.source)):
            self.chats.reply(event, text)

    async def take(
        self,
        key: str,
        event: MessageEvent,
        mode: Mode,
        *,
        message_key: str | None,
        at_once: str | None = None,
    ) -> str | None:
        """Store and deliver a message that a command made. Return the text to tell its sender: `at_once` if
        it need not wait; None if it was stored before."""
        stored = await self.store(key, event, message_key=message_key)
        if stored.seen_before:
            return None
        return self.meet(key, event, stored, mode) or at_once
