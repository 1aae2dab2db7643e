"""What the platforms for tests have in common: people who say things, chats that show what was sent,
and trouble on demand.

A stage is the platform behind the wire. It keeps each message until the gateway has accepted it, hands
them out one at a time in order, and shows what arrives as a person would see it. Nothing in it knows how
the gateway is connected.
"""

from __future__ import annotations

import itertools
import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Literal, TypeVar

import trio

from ..messages import Attachment, ChatType, MessageEvent, SessionSource
from ..platform import Counting, OutcomeUnknown, Outgoing, PlatformError, Refused, Traits

Call = Literal["connect", "send", "edit", "delete", "typing", "find"]
Happening = Call | Literal["disconnect", "accept"]

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """A message of the gateway's in a chat, as it looks now."""

    message_id: str
    text: str
    at: float
    edited_at: float | None = None
    thread_id: str | None = None
    reply_to: str | None = None
    attachments: tuple[Attachment, ...] = ()
    silent: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """Something that the gateway asked of the platform, whatever came of it."""

    at: float
    what: Happening
    chat_id: str = ""
    message_id: str | None = None
    text: str | None = None
    key: str | None = None
    thread_id: str | None = None


@dataclass(slots=True)
class Chat:
    """A chat as the person in it sees it."""

    chat_id: str
    messages: list[Shown] = field(default_factory=list)
    typing_at: list[float] = field(default_factory=list)
    """When typing was shown."""

    @property
    def texts(self) -> list[str]:
        """What the gateway's messages say, oldest first."""
        return [message.text for message in self.messages]

    @property
    def last(self) -> str | None:
        """What the newest message says."""
        return self.messages[-1].text if self.messages else None


@dataclass(frozen=True, slots=True, eq=False)
class Delivery:
    """A message of a person's on its way to the gateway."""

    number: int
    event: MessageEvent
    accepted: trio.Event


@dataclass(frozen=True, slots=True)
class _Trouble:
    call: Call | Literal["disconnect"]
    chat: str | None
    seconds: float = 0.0
    error: PlatformError | None = None
    arrives: bool = False
    """Whether the call does its work before the trouble."""


class Stage:
    """A platform, seen from the side of the test."""

    def __init__(self, name: str, account: str, traits: Traits) -> None:
        self.name, self.account, self.traits = name, account, traits
        self.history: list[Operation] = []
        """Everything the gateway asked for, in order."""
        self._chats: dict[str, Chat] = {}
        self._ids_of_keys: dict[tuple[str, str], str] = {}
        self._waiting: deque[Delivery] = deque()
        self._troubles: list[_Trouble] = []
        self._ids = itertools.count(1)
        self._changed = trio.Event()

    # --- people ---

    async def says(
        self,
        text: str,
        *,
        chat: str = "42",
        message_id: str | None = None,
        user: str | None = None,
        chat_type: ChatType = "dm",
        thread_id: str | None = None,
        reply_to: str | None = None,
    ) -> MessageEvent:
        """A person says something; returns when the gateway has accepted it. Without a `user` it is
        the one whose direct chat this is."""
        event = self.event(
            text,
            chat=chat,
            message_id=message_id,
            user=user,
            chat_type=chat_type,
            thread_id=thread_id,
            reply_to=reply_to,
        )
        await self.deliver(event).wait()
        return event

    def post(self, text: str, *, chat: str = "42", message_id: str | None = None) -> MessageEvent:
        """As `says`, without waiting for anything."""
        event = self.event(text, chat=chat, message_id=message_id)
        self.deliver(event)
        return event

    def deliver(self, event: MessageEvent) -> trio.Event:
        """Deliver this event, be it for the second time; the returned event is set when the gateway has
        accepted it."""
        delivery = Delivery(next(self._ids), event, trio.Event())
        self._waiting.append(delivery)
        self._notify()
        return delivery.accepted

    def event(
        self,
        text: str,
        *,
        chat: str = "42",
        message_id: str | None = None,
        user: str | None = None,
        chat_type: ChatType = "dm",
        thread_id: str | None = None,
        reply_to: str | None = None,
    ) -> MessageEvent:
        """What a person would say here, not yet delivered."""
        source = SessionSource(
            platform=self.name,
            account=self.account,
            chat_id=chat,
            chat_type=chat_type,
            user_id=user or chat,
            thread_id=thread_id,
        )
        message_id = message_id or str(next(self._ids))
        return MessageEvent(source=source, text=text, message_id=message_id, reply_to=reply_to)

    def chat(self, chat_id: str) -> Chat:
        """This chat. It changes as things happen in it."""
        return self._chats.setdefault(chat_id, Chat(chat_id))

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until this is so; looked at whenever something has happened here."""
        await trio.lowlevel.checkpoint()
        while not condition():
            await self._changed.wait()

    # --- trouble ---

    def fails(self, call: Call, error: PlatformError, *, times: int = 1, chat: str | None = None) -> None:
        """The next `times` calls, of this chat if one is named, do nothing and raise this."""
        self._troubles += [_Trouble(call, chat, error=error)] * times

    def hangs(
        self,
        call: Call | Literal["disconnect"],
        seconds: float = math.inf,
        *,
        arrives: bool = False,
        times: int = 1,
        chat: str | None = None,
    ) -> None:
        """The next `times` calls take so long; with `arrives` they do so when their work is done."""
        if call == "disconnect" and not math.isfinite(seconds):
            raise ValueError("A disconnect hangs in a shield, and every shield has a deadline.")
        self._troubles += [_Trouble(call, chat, seconds, arrives=arrives)] * times

    def loses_answer(
        self, call: Call = "send", *, seconds: float = 0.0, times: int = 1, chat: str | None = None
    ) -> None:
        """The next `times` calls do their work, and then say that nobody knows whether they did."""
        error = OutcomeUnknown("The platform did not answer.")
        self._troubles += [_Trouble(call, chat, seconds, error, arrives=True)] * times

    # --- what the gateway asks for ---

    async def send(self, message: Outgoing) -> str:
        self._note("send", message.chat_id, text=message.text, key=message.key, thread_id=message.thread_id)
        return await self._perform("send", message.chat_id, lambda: self._show(message))

    async def edit(self, chat_id: str, message_id: str, text: str) -> None:
        self._demand("edits")
        self._note("edit", chat_id, message_id=message_id, text=text)
        await self._perform("edit", chat_id, lambda: self._edit(chat_id, message_id, text))

    async def delete(self, chat_id: str, message_id: str) -> None:
        self._demand("deletes")
        self._note("delete", chat_id, message_id=message_id)
        await self._perform("delete", chat_id, lambda: self._delete(chat_id, message_id))

    async def typing(self, chat_id: str, thread_id: str | None) -> None:
        self._demand("typing")
        self._note("typing", chat_id, thread_id=thread_id)
        await self._perform("typing", chat_id, lambda: self._type(chat_id))

    async def find(self, chat_id: str, key: str) -> str | None:
        self._demand("finds")
        self._note("find", chat_id, key=key)
        return await self._perform("find", chat_id, lambda: self._ids_of_keys.get((chat_id, key)))

    async def connecting(self) -> None:
        self._note("connect")
        await self._perform("connect", None, lambda: None)

    async def disconnecting(self) -> None:
        """Takes as long as was asked for, even when cancelled, as a goodbye to a peer may."""
        self._note("disconnect")
        if trouble := self._next_trouble("disconnect", None):
            with trio.move_on_after(trouble.seconds, shield=True):
                await trio.sleep_forever()

    async def first_waiting(self) -> Delivery:
        """The oldest message that was not accepted."""
        await self.until(lambda: bool(self._waiting))
        return self._waiting[0]

    def accept(self, delivery: Delivery) -> None:
        """The gateway has stored this one: it is never handed out again."""
        if not delivery.accepted.is_set():
            self._waiting.remove(delivery)
            delivery.accepted.set()
            source, message_id = delivery.event.source, delivery.event.message_id
            self._note("accept", source.chat_id, message_id=message_id)

    def _demand(self, trait: Literal["edits", "deletes", "typing", "finds"]) -> None:
        # No trouble of a platform's, so nobody should handle it: the caller did not look.
        assert getattr(self.traits, trait), f"{self.name} was asked for what its traits deny: {trait}."  # noqa: S101

    async def _perform(
        self, call: Call, chat_id: str | None, work: Callable[[], _T]
    ) -> _T:
        trouble = self._next_trouble(call, chat_id)
        await trio.lowlevel.checkpoint()
        if trouble is None:
            return work()
        if trouble.arrives:
            done = work()
            await trio.sleep(trouble.seconds)
            if trouble.error:
                raise trouble.error
            return done
        await trio.sleep(trouble.seconds)
        if trouble.error:
            raise trouble.error
        return work()

    def _next_trouble(self, call: Call | Literal["disconnect"], chat_id: str | None) -> _Trouble | None:
        for place, trouble in enumerate(self._troubles):
            if trouble.call == call and trouble.chat in (None, chat_id):
                return self._troubles.pop(place)
        return None

    def _show(self, message: Outgoing) -> str:
        key = message.chat_id, message.key
        if self.traits.takes_keys and key in self._ids_of_keys:
            return self._ids_of_keys[key]
        self._take(message.text, attachments=message.attachments)
        ...
