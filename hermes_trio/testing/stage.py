"""What the platforms for tests have in common: people who say things, chats that show what was sent,
and trouble on demand.

A stage is the platform behind the wire, and knows nothing of the wire. It keeps each message of a person
until the gateway has accepted it, and hands out the oldest one: again after a reconnect, never a later
one before it.
"""

from __future__ import annotations

import itertools
import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Literal, TypedDict, TypeVar, Unpack

import trio

from ..base.messages import ChatType, MessageEvent, SessionSource
from ..platform.contract import OutcomeUnknown, Outgoing, Preformatted, Refused, Traits
from .shown_chats import ShownChat, ShownChats

Call = Literal["connect", "send", "edit", "delete", "typing", "find", "fetch"]
What = Call | Literal["disconnect", "accept"]

_T = TypeVar("_T")


class Saying(TypedDict, total=False):
    """How somebody says something. Without a `user` it is the one whose direct chat this is."""

    chat: str
    message_id: str | None
    user: str
    chat_type: ChatType
    thread_id: str
    reply_to: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """What the gateway did, whatever came of it, and when. To accept is to ask for the next message."""

    at: float
    what: What
    chat_id: str = ""
    message_id: str | None = None
    text: str | None = None
    key: str | None = None
    thread_id: str | None = None


@dataclass(frozen=True, slots=True, eq=False)
class WaitingEvent:
    """A message of a person's on its way to the gateway."""

    number: int
    event: MessageEvent
    accepted: trio.Event = field(default_factory=trio.Event)


@dataclass(frozen=True, slots=True)
class _Trouble:
    call: Call
    chat: str | None
    seconds: float
    error: Exception | None
    arrives: bool


def demand(traits: Traits, trait: Literal["edits", "deletes", "typing", "finds", "fetches"]) -> None:
    """Who asks a platform for what its traits deny has not looked at them: no error of a platform's, so
    that nothing handles it."""
    if not getattr(traits, trait):
        raise AssertionError(f"A platform was asked for what its traits deny: {trait}.")


class Stage:
    """A platform, seen from the side of the test."""

    def __init__(self, name: str, account: str, traits: Traits) -> None:
        self.name, self.account, self.traits = name, account, traits
        self.history: list[Operation] = []
        self.files: dict[str, bytes] = {}
        """What people have sent along, by its file id."""
        self._ids = itertools.count(1)
        self._chats = ShownChats(traits, new_id=lambda: str(next(self._ids)))
        self._waiting: deque[WaitingEvent] = deque()
        self._numbers = itertools.count(1)
        self._troubles: list[_Trouble] = []
        self._changed = trio.Event()

    # --- what people do and see ---

    async def says(self, text: str, **how: Unpack[Saying]) -> MessageEvent:
        """Somebody says this, by default the person of direct chat 42; returns when the gateway has
        accepted it."""
        event = self.event(text, **how)
        await self.deliver(event).wait()
        return event

    def post(self, text: str, **how: Unpack[Saying]) -> MessageEvent:
        """As `says`, without waiting for anything."""
        event = self.event(text, **how)
        self.deliver(event)
        return event

    async def presses(self, label: str, **how: Unpack[Saying]) -> MessageEvent:
        """Somebody presses the newest button with this label; returns when the gateway has accepted it."""
        event = self.press(label, **how)
        await self.deliver(event).wait()
        return event

    def press(self, label: str, **how: Unpack[Saying]) -> MessageEvent:
        """What `presses` would deliver. Who has seen a button may press it for ever."""
        message, button = self.chat(how.get("chat", "42")).button(label)
        event = self.event(button.value, **how)
        return replace(event, kind="callback", reply_to=message.message_id)

    def event(self, text: str, **how: Unpack[Saying]) -> MessageEvent:
        """What `says` would deliver."""
        chat = how.get("chat", "42")
        return MessageEvent(
            source=SessionSource(
                platform=self.name,
                account=self.account,
                chat_id=chat,
                chat_type=how.get("chat_type", "dm"),
                user_id=how.get("user", chat),
                thread_id=how.get("thread_id"),
            ),
            text=text,
            message_id=how.get("message_id") or str(next(self._ids)),
            reply_to=how.get("reply_to"),
        )

    def deliver(self, event: MessageEvent) -> trio.Event:
        """Deliver this, be it for the second time. What is returned is set once it is accepted."""
        delivery = WaitingEvent(next(self._numbers), event)
        self._waiting.append(delivery)
        self._notify()
        return delivery.accepted

    def chat(self, chat_id: str) -> ShownChat:
        """This chat. It changes as things happen in it."""
        return self._chats[chat_id]

    def drop(self) -> None:
        """The connection is lost now, and may be made again: what this means is the business of the wire."""
        raise NotImplementedError

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until this is so. It is asked again whenever something has happened here."""
        await trio.lowlevel.checkpoint()
        while not condition():
            await self._changed.wait()

    # --- trouble, for the next calls, of this chat if one is named ---

    def fails(self, call: Call, error: Exception, *, times: int = 1, chat: str | None = None) -> None:
        """They do nothing and raise this."""
        self._troubles += [_Trouble(call, chat, 0, error, arrives=False)] * times

    def hangs(
        self,
        call: Call,
        seconds: float = math.inf,
        *,
        arrives: bool = False,
        times: int = 1,
        chat: str | None = None,
    ) -> None:
        """They take so long: before they do their work or, if it `arrives`, after it."""
        self._troubles += [_Trouble(call, chat, seconds, None, arrives)] * times

    def loses_answer(self, call: Call = "send", *, times: int = 1, chat: str | None = None) -> None:
        """They do their work, and say that nobody knows whether they did."""
        error = OutcomeUnknown("The platform did not answer.")
        self._troubles += [_Trouble(call, chat, 0, error, arrives=True)] * times

    # --- what a link asks for ---

    async def connecting(self) -> None:
        self.note("connect")
        await self._perform("connect", "", lambda: None)

    async def send(self, message: Outgoing) -> str:
        self.note("send", message.chat_id, text=message.text, key=message.key, thread_id=message.thread_id)
        return await self._perform(
            "send", message.chat_id, lambda: self._chats.show(message, trio.current_time())
        )

    async def edit(self, chat_id: str, message_id: str, text: str, preformatted: Preformatted = ()) -> None:
        self.note("edit", chat_id, message_id, text=text)
        await self._perform(
            "edit",
            chat_id,
            lambda: self._chats.edit(chat_id, message_id, text, trio.current_time(), preformatted),
        )

    async def delete(self, chat_id: str, message_id: str) -> None:
        self.note("delete", chat_id, message_id)
        await self._perform("delete", chat_id, lambda: self._chats.delete(chat_id, message_id))

    async def typing(self, chat_id: str, thread_id: str | None) -> None:
        self.note("typing", chat_id, thread_id=thread_id)
        await self._perform(
            "typing", chat_id, lambda: self.chat(chat_id).typing_at.append(trio.current_time())
        )

    async def find(self, chat_id: str, key: str) -> str | None:
        self.note("find", chat_id, key=key)
        return await self._perform("find", chat_id, lambda: self._chats.find(chat_id, key))

    async def fetch(self, file_id: str, most: int) -> bytes:
        self.note("fetch", message_id=file_id)
        data = await self._perform("fetch", "", lambda: self.files.get(file_id))
        if data is None:
            raise Refused(f"There is no file {file_id}.")
        if len(data) > most:
            raise Refused(f"It has {len(data)} bytes.")
        return data

    async def first_waiting(self) -> WaitingEvent:
        """The oldest message that was not accepted."""
        await self.until(lambda: bool(self._waiting))
        return self._waiting[0]

    def accept(self, delivery: WaitingEvent) -> None:
        """The gateway has stored this: it is not handed out again."""
        if not delivery.accepted.is_set():
            self._waiting.remove(delivery)
            delivery.accepted.set()
            self.note("accept", delivery.event.source.chat_id, delivery.event.message_id)

    def note(
        self,
        what: What,
        chat_id: str = "",
        message_id: str | None = None,
        *,
        text: str | None = None,
        key: str | None = None,
        thread_id: str | None = None,
    ) -> None:
        self.history.append(
            Operation(
                at=trio.current_time(),
                what=what,
                chat_id=chat_id,
                message_id=message_id,
                text=text,
                key=key,
                thread_id=thread_id,
            )
        )
        self._notify()

    async def _perform(self, call: Call, chat_id: str, work: Callable[[], _T]) -> _T:
        trouble = self._next_trouble(call, chat_id)
        await trio.lowlevel.checkpoint()
        if trouble is None:
            return self._done(work)
        if trouble.arrives:
            done = self._done(work)
        await trio.sleep(trouble.seconds)
        if trouble.error:
            raise trouble.error
        return done if trouble.arrives else self._done(work)

    def _done(self, work: Callable[[], _T]) -> _T:
        done = work()
        self._notify()
        return done

    def _next_trouble(self, call: Call, chat_id: str) -> _Trouble | None:
        for place, trouble in enumerate(self._troubles):
            if trouble.call == call and trouble.chat in (None, chat_id):
                return self._troubles.pop(place)
        return None

    def _notify(self) -> None:
        self._changed.set()
        self._changed = trio.Event()
