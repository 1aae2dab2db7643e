"""The platform in memory: events, connections and cancelled calls."""

from __future__ import annotations

import gc
import itertools
from functools import partial

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from hermes_trio.platform.contract import (
    Adapter,
    CredentialsRefused,
    Link,
    LinkLost,
    NotSent,
    OutcomeUnknown,
    PlatformError,
)
from hermes_trio.testing import MemoryPlatform
from hermes_trio.testing.checkpoints import cancelled_at
from tests.testing.outgoing_messages import ALL_TRAITS, message


async def receive(adapter: Adapter, count: int) -> list[str]:
    """Return the texts of the next events. The last one is not accepted, because no further one is
    requested."""
    texts: list[str] = []
    async with adapter.connect() as link:
        async for event in link.receive():
            texts.append(event.text)
            if len(texts) == count:
                break
    return texts


async def test_an_event_is_accepted_when_the_next_one_is_requested(
    platform: MemoryPlatform, nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    stored_at: list[float] = []

    async def gateway() -> None:
        async with platform.connect() as link:
            async for _ in link.receive():
                await trio.sleep(3)  # a slow disk
                stored_at.append(trio.current_time())

    nursery.start_soon(gateway)
    event = await platform.says("hello", chat="7", user="8", thread_id="9", chat_type="group", reply_to="1")
    assert stored_at == [trio.current_time()] == [3]
    assert (event.source.chat_id, event.source.user_id, event.source.thread_id) == ("7", "8", "9")
    assert [done.what for done in platform.history] == ["connect", "accept"]
    nursery.cancel_scope.cancel()


async def test_an_event_that_was_not_accepted_comes_first_on_the_next_link(
    platform: MemoryPlatform, autojump_clock: MockClock
) -> None:
    for text in ("one", "two", "three"):
        platform.post(text)
    assert await receive(platform, 2) == ["one", "two"]
    assert await receive(platform, 2) == ["two", "three"]
    assert await receive(platform, 1) == ["three"]


async def test_an_event_can_be_delivered_twice(platform: MemoryPlatform) -> None:
    event = platform.post("hello", message_id="m-1")
    platform.deliver(event)
    assert await receive(platform, 2) == ["hello", "hello"]


async def test_events_keep_their_order(platform: MemoryPlatform) -> None:
    said = [platform.post(f"{i}", chat=str(i % 3)).text for i in range(20)]
    assert await receive(platform, 20) == said


async def test_the_current_event_of_a_lost_link_is_not_accepted(platform: MemoryPlatform, link: Link) -> None:
    accepted = platform.deliver(platform.event("hello"))
    incoming = link.receive()
    assert (await anext(incoming)).text == "hello"
    platform.drop()
    with pytest.raises(LinkLost):
        await anext(incoming)
    assert not accepted.is_set()
    assert await receive(platform, 1) == ["hello"]


@pytest.mark.parametrize("error", [LinkLost("No network."), CredentialsRefused("memory")])
async def test_connecting_fails_as_often_as_requested(platform: MemoryPlatform, error: PlatformError) -> None:
    platform.fails("connect", error, times=2)
    for _ in range(2):
        with pytest.raises(type(error)):
            async with platform.connect():
                pass
    async with platform.connect():
        assert platform.connected
    assert not platform.connected


async def test_connecting_can_hang(platform: MemoryPlatform, autojump_clock: MockClock) -> None:
    platform.hangs("connect")
    with trio.move_on_after(60) as patience:
        async with platform.connect():
            pass
    assert patience.cancelled_caught
    assert not platform.connected


async def test_a_lost_link_ends_the_wait_for_events(
    platform: MemoryPlatform, link: Link, nursery: trio.Nursery
) -> None:
    async def waits() -> None:
        with pytest.raises(LinkLost):
            await anext(link.receive())

    nursery.start_soon(waits)
    await wait_all_tasks_blocked()
    platform.drop()


async def test_a_link_can_end_quietly(platform: MemoryPlatform, link: Link, nursery: trio.Nursery) -> None:
    async def waits() -> None:
        assert [event async for event in link.receive()] == []

    nursery.start_soon(waits)
    await wait_all_tasks_blocked()
    platform.drop(quietly=True)


async def test_calls_on_a_lost_link_raise_an_error(platform: MemoryPlatform, link: Link) -> None:
    platform.drop()
    with pytest.raises(NotSent):
        await link.send(message())
    with pytest.raises(LinkLost):
        await link.edit("42", "1", "Hi!")
    with pytest.raises(LinkLost):
        await link.delete("42", "1")
    with pytest.raises(LinkLost):
        await link.typing("42", None)
    with pytest.raises(LinkLost):
        await link.find("42", "key-1")
    assert platform.chat("42").texts == []


@pytest.mark.parametrize("arrives", [True, False])
async def test_a_send_on_a_link_that_gets_lost_has_an_unknown_outcome(
    platform: MemoryPlatform, link: Link, nursery: trio.Nursery, *, arrives: bool
) -> None:
    async def sends() -> None:
        with pytest.raises(OutcomeUnknown):
            await link.send(message())

    platform.hangs("send", arrives=arrives)
    nursery.start_soon(sends)
    await wait_all_tasks_blocked()
    platform.drop()
    assert platform.chat("42").texts == (["Hi."] if arrives else [])


async def test_a_second_link_ends_the_first(platform: MemoryPlatform, link: Link) -> None:
    async with platform.connect() as second:
        with pytest.raises(LinkLost):
            await link.typing("42", None)
        await second.typing("42", None)


async def test_an_error_in_the_block_of_a_link_is_raised_unchanged(platform: MemoryPlatform) -> None:
    with pytest.raises(ZeroDivisionError):
        async with platform.connect():
            raise ZeroDivisionError
    assert not platform.connected


async def test_a_disconnect_can_take_time_even_when_it_is_cancelled(
    platform: MemoryPlatform, autojump_clock: MockClock
) -> None:
    platform.disconnect_takes = 4
    with trio.move_on_after(1):
        async with platform.connect():
            await trio.sleep_forever()
    assert trio.current_time() == 5


async def test_a_thousand_reconnects_leave_no_task_and_no_resource_behind(platform: MemoryPlatform) -> None:
    tasks, links = trio.lowlevel.current_statistics().tasks_living, _links()
    for _ in range(1000):
        platform.post("hello")
        async with platform.connect() as link:
            await anext(link.receive())
            platform.drop()
    assert trio.lowlevel.current_statistics().tasks_living == tasks
    assert _links() <= links + 1


def _links() -> int:
    gc.collect()
    return len([found for found in gc.get_objects() if type(found).__name__ == "MemoryLink"])


async def life(adapter: Adapter, stored: list[str]) -> None:
    """Store events until none has come for a second."""
    async with adapter.connect() as link:
        incoming = link.receive()
        while True:
            with trio.move_on_after(1) as patience:
                event = await anext(incoming)
            if patience.cancelled_caught:
                return
            await trio.lowlevel.checkpoint()
            stored.append(event.text)


async def test_a_receiver_that_is_cancelled_at_any_checkpoint_loses_no_event(
    autojump_clock: MockClock,
) -> None:
    said = ["one", "two", "three"]
    for halt in itertools.count(1):
        platform, stored = MemoryPlatform(), list[str]()
        accepted = [platform.deliver(platform.event(text)) for text in said]
        cancelled = await cancelled_at(halt, partial(life, platform, stored))
        assert [event.is_set() for event in accepted].count(True) <= len(stored)
        await life(platform, stored)
        assert all(event.is_set() for event in accepted)
        assert list(dict.fromkeys(stored)) == said
        if not cancelled:
            break
    assert halt > 8


async def test_a_send_that_is_cancelled_at_any_checkpoint_can_be_repeated_with_its_key(
    autojump_clock: MockClock,
) -> None:
    for halt in itertools.count(1):
        platform = MemoryPlatform(traits=ALL_TRAITS)
        platform.hangs("send", 1, arrives=True)
        async with platform.connect() as link:
            cancelled = await cancelled_at(halt, partial(link.send, message()))
            found = await link.find("42", "key-1")
            assert (found is not None) == (platform.chat("42").texts == ["Hi."])
            assert await link.send(message()) == found or found is None
        assert platform.chat("42").texts == ["Hi."]
        if not cancelled:
            break
    assert halt > 2
