"""Faulty adapters: an adapter that fails or reports impossible events can only lose its own link. Other
chats are served, and a stop is no crash."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, Literal, TypeVar

import pytest
import trio

from hermes_trio.base.messages import MessageEvent, SessionSource
from hermes_trio.platform.contract import Link, Outgoing, Traits
from hermes_trio.testing import MemoryPlatform, Script
from tests.stage import Stage

T = TypeVar("T")


async def fail_when_cancelled() -> None:
    try:
        await trio.sleep_forever()
    finally:
        raise ValueError("the socket was closed under me")


class TextlessError(Exception):
    """An error without a text: `str` of it raises."""

    def __str__(self) -> str:
        raise ValueError("no words")

    __repr__ = __str__


@pytest.mark.parametrize("call", ["connect", "send", "edit"])
async def test_an_error_of_an_adapter_without_a_text_does_not_disturb_other_chats(
    stage: Stage, call: Literal["connect", "send", "edit"]
) -> None:
    stage.agent.on("work", Script().says("One. ", pieces=3, seconds=5).says("Two."))
    async with stage.life():
        await trio.sleep(1)  # until the platform is connected
        stage.platform.fails(call, TextlessError())
        if call == "connect":
            stage.platform.drop()
        await stage.says("work")
        await trio.sleep(300)
        await stage.says("hello", chat="7")
        await trio.sleep(5)
        assert stage.platform.chat("7").texts == ["You said: hello"]


class LinkWrapper:
    """A wrapper of a link, for a link that behaves differently in one way."""

    def __init__(self, link: Link) -> None:
        self._link = link

    def __getattr__(self, name: str) -> Any:
        return getattr(self._link, name)


class HangingLink(LinkWrapper):
    """A link with a call that hangs once, with a task in it that fails when it is cancelled."""

    def __init__(self, link: Link, hangs: str) -> None:
        super().__init__(link)
        self._hangs = {hangs}

    async def send(self, message: Outgoing) -> str | None:
        return await self._called("send", lambda: self._link.send(message))

    async def edit(self, chat_id: str, message_id: str, text: str, preformatted: object = ()) -> None:
        await self._called("edit", lambda: self._link.edit(chat_id, message_id, text))

    async def typing(self, chat_id: str, thread_id: str | None) -> None:
        await self._called("typing", lambda: self._link.typing(chat_id, thread_id))

    async def _called(self, name: str, call: Callable[[], Awaitable[T]]) -> T:
        if name in self._hangs:
            self._hangs.clear()
            async with trio.open_nursery() as nursery:
                nursery.start_soon(fail_when_cancelled)
                await trio.sleep_forever()
        return await call()


class HangingPlatform(MemoryPlatform):
    """A platform whose links hang once, in the call named by `slow`."""

    slow = ""

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[Link]:  # type: ignore[override]
        async with super().connect() as link:
            yield HangingLink(link, self.slow)


@pytest.mark.parametrize("call", ["send", "edit", "typing"])
async def test_a_call_with_a_failing_task_can_time_out(stage: Stage, call: str) -> None:
    platform = stage.platform = HangingPlatform(traits=Traits(edits=True, typing=True))
    platform.slow = call
    stage.agent.on("work", Script().says("One. ", pieces=3, seconds=5).says("Two."))
    async with stage.life():
        await stage.says("work")
        await trio.sleep(300)
        await stage.says("hello", chat="7")
        await trio.sleep(5)
        assert platform.chat("7").texts == ["You said: hello"]
        assert platform.chat("42").texts[-1].endswith("Two.")


@pytest.mark.parametrize("call", ["send", "edit", "typing"])
async def test_a_call_with_a_failing_task_does_not_disturb_a_stop(stage: Stage, call: str) -> None:
    platform = stage.platform = HangingPlatform(traits=Traits(edits=True, typing=True))
    platform.slow = call
    stage.agent.on("work", Script().says("One. ", pieces=3, seconds=5).hangs())
    async with stage.life() as gateway:
        await stage.says("work")
        await trio.sleep(5)
        gateway.stop(grace=0)
    assert [turn.outcome for turn in stage.turns()] == ["cut"]


class FailingTaskPlatform(MemoryPlatform):
    """A platform whose connection is a nursery with a task that fails when it is cancelled."""

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[Link]:  # type: ignore[override]
        async with super().connect() as link, trio.open_nursery() as nursery:
            nursery.start_soon(fail_when_cancelled)
            yield link


async def test_a_stop_is_no_crash_if_closing_a_connection_fails(stage: Stage) -> None:
    stage.platform = FailingTaskPlatform(traits=Traits(edits=True, typing=True))
    async with stage.life() as gateway:
        await stage.says("hello")
        await trio.sleep(5)
        gateway.stop(grace=0)
    assert stage.platform.chat("42").texts == ["You said: hello"]


class ImpossibleLink(LinkWrapper):
    """A link that receives an impossible event before all others."""

    def __init__(self, link: Link, what: list[object]) -> None:
        super().__init__(link)
        self._what = what

    async def receive(self) -> AsyncIterator[object]:
        while self._what:
            yield self._what.pop()
        async for event in self._link.receive():
            yield event


class ImpossiblePlatform(MemoryPlatform):
    """A platform that receives an impossible event once."""

    def __init__(self, what: object) -> None:
        super().__init__(traits=Traits(edits=True, typing=True))
        self._what = [what]

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[Link]:  # type: ignore[override]
        async with super().connect() as link:
            yield ImpossibleLink(link, self._what)  # type: ignore[misc]


def event(text: object = "hi", chat: object = "42", **more: object) -> object:
    where = {
        name: more.pop(name) for name in ("user_name", "account", "platform", "chat_type") if name in more
    }
    source = SessionSource(**{"platform": "memory", "chat_id": chat, "user_id": "42"} | where)  # type: ignore[arg-type]
    return MessageEvent(source, text, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "what",
    [
        pytest.param(None, id="nothing"),
        pytest.param({"text": "hi"}, id="no event"),
        pytest.param(event(None), id="no text"),
        pytest.param(event(5), id="a number for a text"),
        pytest.param(event(chat=42), id="a number for a chat"),
        pytest.param(event(chat=None), id="no chat"),
        pytest.param(event(chat="4" * 2000), id="an id that makes no key"),
        pytest.param(event(message_id=7), id="a number for a message id"),
        pytest.param(event(kind="odd"), id="an unknown kind"),
        pytest.param(event(chat_type="odd"), id="an unknown kind of chat"),
        pytest.param(event(user_name=object()), id="a name that is none"),
        pytest.param(event(account="nobody"), id="another account"),
        pytest.param(event(platform="other"), id="another platform"),
    ],
)
async def test_an_impossible_event_ends_only_the_link_of_its_adapter(stage: Stage, what: object) -> None:
    stage.platform = ImpossiblePlatform(what)
    async with stage.life():
        await trio.sleep(100)
        await stage.says("hello", chat="7")
        await trio.sleep(5)
        assert stage.platform.chat("7").texts == ["You said: hello"]
        assert stage.pending() == []
