"""The loopback platform: connections that break at any byte, calls that are cancelled at any checkpoint, and
gateways that are killed lose nothing."""

from __future__ import annotations

import itertools
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import psutil
import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from hermes_trio.base.messages import MessageEvent
from hermes_trio.platform.contract import (
    Adapter,
    Link,
    LinkLost,
    NotSent,
    OutcomeUnknown,
)
from hermes_trio.testing import LoopbackAdapter, LoopbackServer
from hermes_trio.testing.checkpoints import cancelled_at
from hermes_trio.testing.wire import (
    Answer,
    encode,
)
from tests.testing.loopback.conftest import HELLO
from tests.testing.outgoing_messages import message

ROOT = Path(__file__).parents[3]


@dataclass
class Gateway:
    """A minimal gateway: it stores events, answers each one once, repeats sends with an unknown outcome by
    their key, and connects again."""

    adapter: Adapter
    stored: dict[str, str] = field(default_factory=dict)
    answered: set[str] = field(default_factory=set)
    lives: int = 0

    async def run(self) -> None:
        while True:
            try:
                await self.live()
            except LinkLost:
                await trio.lowlevel.checkpoint()

    async def live(self) -> None:
        async with self.adapter.connect() as link:
            self.lives += 1
            await self.answer(link)
            async for event in link.receive():
                assert event.message_id is not None
                self.stored.setdefault(event.message_id, event.text)
                await self.answer(link)

    async def answer(self, link: Link) -> None:
        for message_id, text in self.stored.items():
            if message_id not in self.answered:
                try:
                    await link.send(message(f"You said: {text}", key=f"answer-{message_id}"))
                except (NotSent, OutcomeUnknown) as error:
                    raise LinkLost("Try again.") from error
                self.answered.add(message_id)


def open_files() -> int:
    process = psutil.Process()
    if sys.platform == "win32":
        return process.num_handles()
    return process.num_fds()


def living_tasks() -> int:
    return trio.lowlevel.current_statistics().tasks_living


@pytest.mark.parametrize("direction", ["sent", "received"])
async def test_each_message_is_answered_once_at_whatever_byte_the_connection_breaks(
    platform: LoopbackServer, adapter: LoopbackAdapter, nursery: trio.Nursery, direction: str
) -> None:
    gateway = Gateway(adapter)
    nursery.start_soon(gateway.run)
    said = [await platform.says("hello")]
    for place in range(500):
        lives = gateway.lives
        platform.cuts_after(**{direction: place})
        said.append(await platform.says(f"{place}"))
        while gateway.lives == lives:  # the cut takes one or several messages
            said.append(await platform.says(f"{place}, and more"))
    nursery.cancel_scope.cancel()
    assert gateway.lives > 500
    assert list(gateway.stored) == [event.message_id for event in said]
    assert platform.chat("42").texts == [f"You said: {event.text}" for event in said]


@pytest.mark.parametrize(
    ("direction", "line"), [("received", HELLO), ("sent", encode(Answer(1)))], ids=["hello", "its answer"]
)
async def test_a_greeting_that_breaks_at_any_byte_is_a_lost_link(
    platform: LoopbackServer, adapter: Adapter, direction: str, line: bytes
) -> None:
    for place in range(len(line)):
        platform.cuts_after(**{direction: place})
        with pytest.raises(LinkLost):
            async with adapter.connect():
                pass
    async with adapter.connect() as link:
        await link.typing("42", None)
    assert platform.refused == []


async def test_a_thousand_reconnects_leave_no_task_and_no_resource_behind(
    platform: LoopbackServer, adapter: Adapter
) -> None:
    async def reconnect(count: int) -> None:
        for i in range(count):
            platform.post("hello")
            async with adapter.connect() as link:
                await anext(link.receive())
                if i % 2:
                    platform.drop()
        await platform.until(lambda: not platform.connected)
        await wait_all_tasks_blocked()

    await reconnect(1)
    tasks, files = living_tasks(), open_files()
    await reconnect(1000)
    assert (living_tasks(), open_files()) == (tasks, files)


async def assert_nothing_leaks(
    platform: LoopbackServer, action: Callable[[], Awaitable[object]], *, at_least: int
) -> None:
    """Run the action again and again, cancelled at each of its checkpoints in turn, and check for leaks."""
    await platform.until(lambda: not platform.connected)
    await wait_all_tasks_blocked()
    tasks, files = living_tasks(), open_files()
    for halt in itertools.count(1):
        cancelled = await cancelled_at(halt, action)
        await platform.until(lambda: not platform.connected)
        await wait_all_tasks_blocked(0.002)
        assert (living_tasks(), open_files()) == (tasks, files)
        if not cancelled:
            break
    assert halt > at_least


async def test_a_connect_that_is_cancelled_at_any_checkpoint_leaks_nothing(
    platform: LoopbackServer, adapter: Adapter
) -> None:
    async def connect() -> None:
        async with adapter.connect():
            await trio.lowlevel.checkpoint()

    await assert_nothing_leaks(platform, connect, at_least=4)


async def test_a_receiver_that_is_cancelled_at_any_checkpoint_loses_no_event(
    platform: LoopbackServer, adapter: Adapter
) -> None:
    stored: list[str] = []
    said: list[str] = []

    async def life() -> None:
        said.append(platform.post(f"{len(said)}").text)
        async with adapter.connect() as link:
            async for event in link.receive():
                await trio.lowlevel.checkpoint()
                stored.append(event.text)
                if event.text == said[-1]:
                    break

    await assert_nothing_leaks(platform, life, at_least=8)
    assert list(dict.fromkeys(stored)) == said


async def test_a_send_that_is_cancelled_at_any_checkpoint_leaves_the_link_intact(
    platform: LoopbackServer, link: Link
) -> None:
    for halt in itertools.count(1):
        key = f"key-{halt}"
        cancelled = await cancelled_at(halt, partial(link.send, message(key=key)))
        assert await link.send(message(key=key)) == await link.find("42", key)
        assert len(platform.chat("42").texts) == halt
        if not cancelled:
            break
    assert halt > 2


async def test_a_cancelled_wait_for_an_event_misses_none(platform: LoopbackServer, link: Link) -> None:
    incoming = link.receive()
    for halt in itertools.count(1):
        said = platform.post(f"{halt}")
        got: list[MessageEvent] = []

        async def take(got: list[MessageEvent] = got) -> None:
            got.append(await anext(incoming))

        cancelled = await cancelled_at(halt, take)
        if cancelled:
            await take()
        assert got == [said]
        if not cancelled:
            break
    assert halt > 1


ECHO = """
import sys, trio
from hermes_trio.platform.contract import Outgoing
from hermes_trio.testing import LoopbackAdapter

async def main():
    async with LoopbackAdapter(int(sys.argv[1])).connect() as link:
        async for event in link.receive():
            await link.send(Outgoing(chat_id="42", text=event.text, key=event.message_id))
            if event.text == "die":
                await trio.sleep_forever()

trio.run(main)
"""


async def test_the_current_event_of_a_killed_gateway_goes_to_the_next_one(platform: LoopbackServer) -> None:
    @asynccontextmanager
    async def gateway() -> AsyncIterator[None]:
        async with trio.open_nursery() as nursery:
            command = [sys.executable, "-c", ECHO, str(platform.port)]
            process = await nursery.start(partial(trio.run_process, command, cwd=ROOT, check=False))
            yield
            process.kill()

    def keys() -> list[str | None]:
        return [done.key for done in platform.history if done.what == "send"]

    async with gateway():
        await platform.says("hello", message_id="m-1")
        accepted = platform.deliver(platform.event("die", message_id="m-2"))
        await platform.until(lambda: platform.chat("42").last == "die")
    await platform.until(lambda: not platform.connected)
    assert not accepted.is_set()
    async with gateway():
        await platform.until(lambda: keys() == ["m-1", "m-2", "m-2"])
    assert platform.chat("42").texts == ["hello", "die"]
