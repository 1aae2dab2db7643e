"""Common part of the platforms for tests: people who send messages, chats that show what the gateway sent,
and failures on demand.

A stage knows nothing of the wire between it and an adapter. It keeps each message of a person until the
gateway has accepted it, and delivers the oldest one first: after a reconnect the same one again.
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
from ..base.pulse import Pulse
from ..platform.contract import STOPPED_DRAFT, Draft, OutcomeUnknown, Outgoing, Preformatted, Refused, Traits
from .shown_chats import ShownChat, ShownChats

Call = Literal["connect", "send", "edit", "delete", "typing", "draft", "react", "find", "fetch"]
What = Call | Literal["disconnect", "accept"]

_T = TypeVar("_T")


class Saying(TypedDict, total=False):
    """Circumstances of a message. `user` defaults to the person whose direct chat it is."""

    chat: str
    message_id: str | None
    user: str
    chat_type: ChatType
    thread_id: str
    reply_to: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """A call by the gateway, successful or not, and its time. `accept` is the request for the next
    message."""

    at: float
    what: What
    chat_id: str = ""
    message_id: str | None = None
    text: str | None = None
    key: str | None = None
    thread_id: str | None = None


@dataclass(frozen=True, slots=True, eq=False)
class WaitingEvent:
    """An event that the gateway has not accepted yet."""

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


class Stage:
    """A platform as a test sees it."""

    def __init__(self, name: str, account: str, traits: Traits) -> None:
        self.name, self.account, self.traits = name, account, traits
        self.history: list[Operation] = []
        self.files: dict[str, bytes] = {}
        """Content of the attachments of people, by file id."""
        self._ids = itertools.count(1)
        self._chats = ShownChats(traits, new_id=self.new_message_id)
        self._waiting: deque[WaitingEvent] = deque()
        self._numbers = itertools.count(1)
        self._troubles: list[_Trouble] = []
        self.changed = Pulse()
        """Set after each change; `until` waits for it."""

    # --- for tests: people and chats ---

    async def says(self, text: str, **how: Unpack[Saying]) -> MessageEvent:
        """Send a message as a person, by default the one of direct chat 42, and wait until the gateway has
        accepted it."""
        event = self.event(text, **how)
        await self.deliver(event).wait()
        return event

    def post(self, text: str, **how: Unpack[Saying]) -> MessageEvent:
        """Send a message as `says` does, and wait for nothing."""
        event = self.event(text, **how)
        self.deliver(event)
        return event

    async def presses(self, label: str, **how: Unpack[Saying]) -> MessageEvent:
        """Press the newest button with this label, and wait until the gateway has accepted the event."""
        event = self.press(label, **how)
        await self.deliver(event).wait()
        return event

    def press(self, label: str, **how: Unpack[Saying]) -> MessageEvent:
        """Return the event that `presses` delivers. The press of a button that is gone is valid too: somebody
        may still see it."""
        message, button = self.chat(how.get("chat", "42")).button(label)
        event = self.event(button.value, **how)
        return replace(event, kind="callback", reply_to=message.message_id)

    def stop_draft(self, **how: Unpack[Saying]) -> MessageEvent:
        """Return the event of a person who stops the draft of a chat. Raises KeyError if none is shown."""
        draft = self.chat(how.get("chat", "42")).draft
        if draft is None:
            raise KeyError("No draft is shown.")
        return replace(self.event(f"{STOPPED_DRAFT}{draft.number}", **how), kind="callback")

    def event(self, text: str, **how: Unpack[Saying]) -> MessageEvent:
        """Return the event that `says` delivers."""
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
        """Deliver an event, perhaps for the second time. The returned event is set once it is accepted."""
        delivery = WaitingEvent(next(self._numbers), event)
        self._waiting.append(delivery)
        self.changed.set()
        return delivery.accepted

    def chat(self, chat_id: str) -> ShownChat:
        """Return a chat. The object is updated by later messages."""
        return self._chats[chat_id]

    def drop(self) -> None:
        """Close the connection now; a new one may be made. A subclass does this for its wire."""
        raise NotImplementedError

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until the condition holds. It is checked after each change."""
        await trio.lowlevel.checkpoint()
        while not condition():
            await self.changed.wait()

    # --- for tests: failures of the next calls, of one chat if it is named ---

    def fails(self, call: Call, error: Exception, *, times: int = 1, chat: str | None = None) -> None:
        """Let the next calls do nothing and raise the error."""
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
        """Let the next calls take this long: before they take effect or, with `arrives`, afterwards."""
        self._troubles += [_Trouble(call, chat, seconds, None, arrives)] * times

    def loses_answer(self, call: Call = "send", *, times: int = 1, chat: str | None = None) -> None:
        """Let the next calls take effect and raise `OutcomeUnknown`."""
        error = OutcomeUnknown("The platform did not answer.")
        self._troubles += [_Trouble(call, chat, 0, error, arrives=True)] * times

    # --- for links: the calls of the gateway ---

    def new_message_id(self) -> str:
        """Return the id of the message that is shown next. A platform whose ids come from the sender
        overrides this."""
        return str(next(self._ids))

    async def connecting(self) -> None:
        """Record a connection attempt, or raise the failure that a test has asked for."""
        self.note("connect")
        await self._perform("connect", "", lambda: None)

    async def send(self, message: Outgoing) -> str:
        """Show a message and return its id."""
        self.note("send", message.chat_id, text=message.text, key=message.key, thread_id=message.thread_id)
        return await self._perform(
            "send", message.chat_id, lambda: self._chats.show(message, trio.current_time())
        )

    async def edit(self, chat_id: str, message_id: str, text: str, preformatted: Preformatted = ()) -> None:
        """Replace the text of a message."""
        self.note("edit", chat_id, message_id, text=text)
        await self._perform(
            "edit",
            chat_id,
            lambda: self._chats.edit(chat_id, message_id, text, trio.current_time(), preformatted),
        )

    async def delete(self, chat_id: str, message_id: str) -> None:
        """Remove a message."""
        self.note("delete", chat_id, message_id)
        await self._perform("delete", chat_id, lambda: self._chats.delete(chat_id, message_id))

    async def typing(self, chat_id: str, thread_id: str | None) -> None:
        """Record that typing is shown."""
        self.note("typing", chat_id, thread_id=thread_id)
        await self._perform(
            "typing", chat_id, lambda: self.chat(chat_id).typing_at.append(trio.current_time())
        )

    async def draft(self, draft: Draft) -> None:
        """Show a draft."""
        self.note("draft", draft.chat_id, text=draft.text, thread_id=draft.thread_id)
        await self._perform("draft", draft.chat_id, lambda: self._chats.show_draft(draft))

    async def react(self, chat_id: str, message_id: str) -> None:
        """Mark a message of a person as taken in."""
        self.note("react", chat_id, message_id)
        await self._perform("react", chat_id, lambda: self.chat(chat_id).taken_in.append(message_id))

    async def find(self, chat_id: str, key: str) -> str | None:
        """Return the id of the message that was sent with this key."""
        self.note("find", chat_id, key=key)
        return await self._perform("find", chat_id, lambda: self._chats.find(chat_id, key))

    async def fetch(self, file_id: str, most: int) -> bytes:
        """Return the content of an attachment."""
        self.note("fetch", message_id=file_id)
        data = await self._perform("fetch", "", lambda: self.files.get(file_id))
        if data is None:
            raise Refused(f"There is no file {file_id}.")
        if len(data) > most:
            raise Refused(f"The file has {len(data)} bytes.")
        return data

    async def first_waiting(self) -> WaitingEvent:
        """Wait for the oldest event that is not accepted."""
        await self.until(lambda: bool(self._waiting))
        return self._waiting[0]

    def accept(self, delivery: WaitingEvent) -> None:
        """Note that the gateway has stored an event: it is not delivered again."""
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
        """Add an operation to the history."""
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
        self.changed.set()

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
        self.changed.set()
        return done

    def _next_trouble(self, call: Call, chat_id: str) -> _Trouble | None:
        for place, trouble in enumerate(self._troubles):
            if trouble.call == call and trouble.chat in (None, chat_id):
                return self._troubles.pop(place)
        return None
