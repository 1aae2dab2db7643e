"""The platform in memory: what people say is handed out until it is accepted, what is sent is shown, and
trouble comes when it is asked for."""

from __future__ import annotations

import gc
import itertools
from collections.abc import AsyncIterator
from functools import partial

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from hermes_trio.platform.contract import (
    Adapter,
    ChatGone,
    Counting,
    CredentialsRefused,
    FloodWait,
    Link,
    LinkLost,
    NotSent,
    OutcomeUnknown,
    Outgoing,
    PlatformError,
    Refused,
    Traits,
)
from hermes_trio.testing import MemoryPlatform
from hermes_trio.testing.checkpoints import cancelled_at

EVERYTHING = Traits(edits=True, deletes=True, typing=True, threads=True, takes_keys=True, finds=True)


@pytest.fixture
def platform() -> MemoryPlatform:
    return MemoryPlatform(traits=EVERYTHING)


@pytest.fixture
async def link(platform: MemoryPlatform) -> AsyncIterator[Link]:
    async with platform.connect() as link:
        yield link


def message(text: str = "Hi.", *, chat: str = "42", key: str = "key-1") -> Outgoing:
    return Outgoing(chat_id=chat, text=text, key=key)


async def receive(adapter: Adapter, count: int) -> list[str]:
    """What the next messages say. The last of them is not accepted: nobody asks for one more."""
    texts: list[str] = []
    async with adapter.connect() as link:
        async for event in link.receive():
            texts.append(event.text)
            if len(texts) == count:
                break
    return texts


# --- what people say ---


async def test_what_is_said_is_accepted_when_the_next_message_is_asked_for(
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


async def test_what_was_not_accepted_comes_again_and_first(
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


async def test_messages_come_in_the_order_in_which_they_were_said(platform: MemoryPlatform) -> None:
    said = [platform.post(f"{i}", chat=str(i % 3)).text for i in range(20)]
    assert await receive(platform, 20) == said


async def test_what_is_in_hand_when_the_link_is_lost_is_not_accepted(
    platform: MemoryPlatform, link: Link
) -> None:
    accepted = platform.deliver(platform.event("hello"))
    incoming = link.receive()
    assert (await anext(incoming)).text == "hello"
    platform.drop()
    with pytest.raises(LinkLost):
        await anext(incoming)
    assert not accepted.is_set()
    assert await receive(platform, 1) == ["hello"]


# --- connecting, and losing the connection ---


@pytest.mark.parametrize("error", [LinkLost("No network."), CredentialsRefused("memory")])
async def test_connecting_fails_as_often_as_was_asked_for(
    platform: MemoryPlatform, error: PlatformError
) -> None:
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


async def test_a_link_that_is_lost_ends_the_waiting_for_messages(
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


async def test_nothing_can_be_asked_of_a_lost_link(platform: MemoryPlatform, link: Link) -> None:
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
async def test_a_link_that_is_lost_during_a_send_leaves_its_outcome_unknown(
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


async def test_the_body_of_a_link_raises_what_it_raised(platform: MemoryPlatform) -> None:
    with pytest.raises(ZeroDivisionError):
        async with platform.connect():
            raise ZeroDivisionError
    assert not platform.connected


async def test_a_disconnect_may_take_time_even_when_it_is_cancelled(
    platform: MemoryPlatform, autojump_clock: MockClock
) -> None:
    platform.disconnect_takes = 4
    with trio.move_on_after(1):
        async with platform.connect():
            await trio.sleep_forever()
    assert trio.current_time() == 5


async def test_a_thousand_reconnects_leave_nothing_behind(platform: MemoryPlatform) -> None:
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


# --- what the gateway sends ---


async def test_a_chat_shows_what_was_sent_as_a_person_sees_it(
    platform: MemoryPlatform, link: Link, autojump_clock: MockClock
) -> None:
    one = Outgoing(chat_id="42", text="One.", key="k1", thread_id="7", reply_to="m-1")
    first = await link.send(one)
    second = await link.send(Outgoing(chat_id="42", text="Two.", key="k2", silent=True))
    third = await link.send(message("Three.", key="k3"))
    assert first is not None
    assert second is not None
    await trio.sleep(5)
    await link.edit("42", first, "One!")
    await link.delete("42", second)
    await link.typing("42", None)
    chat = platform.chat("42")
    assert chat.texts == ["One!", "Three."]
    assert chat.last == "Three."
    shown = chat.messages[0]
    assert (shown.at, shown.edited_at, shown.thread_id, shown.reply_to) == (0, 5, "7", "m-1")
    assert chat.messages[1].message_id == third
    assert chat.typing_at == [5]
    assert platform.chat("43").last is None
    assert [(done.at, done.what) for done in platform.history[1:]] == [
        (0, "send"),
        (0, "send"),
        (0, "send"),
        (5, "edit"),
        (5, "delete"),
        (5, "typing"),
    ]


@pytest.mark.parametrize(
    ("counting", "fits", "too_long"),
    [("characters", "😀" * 10, "x" * 11), ("utf-16", "😀" * 5, "😀" * 6), ("bytes", "ß" * 5, "ß" * 6)],
)
async def test_a_chat_refuses_what_is_too_long_or_blank(counting: Counting, fits: str, too_long: str) -> None:
    platform = MemoryPlatform(traits=Traits(limit=10, counting=counting, edits=True))
    async with platform.connect() as link:
        message_id = await link.send(message(fits))
        assert message_id is not None
        for text in (too_long, "", " \n"):
            with pytest.raises(Refused):
                await link.send(message(text))
            with pytest.raises(Refused):
                await link.edit("42", message_id, text)
    assert platform.chat("42").texts == [fits]


async def test_only_what_is_there_can_be_changed(link: Link) -> None:
    with pytest.raises(Refused):
        await link.edit("42", "no-such", "Hi!")
    with pytest.raises(Refused):
        await link.delete("42", "no-such")


async def test_a_key_is_shown_once_where_the_platform_takes_keys(
    platform: MemoryPlatform, link: Link
) -> None:
    assert await link.send(message()) == await link.send(message())
    assert await link.find("42", "key-1") == platform.chat("42").messages[0].message_id
    assert await link.find("42", "key-2") is None
    assert platform.chat("42").texts == ["Hi."]


async def test_and_twice_where_it_does_not() -> None:
    platform = MemoryPlatform()
    async with platform.connect() as link:
        assert await link.send(message()) != await link.send(message())
    assert platform.chat("42").texts == ["Hi.", "Hi."]


async def test_who_asks_for_what_the_traits_deny_has_made_a_mistake() -> None:
    async with MemoryPlatform().connect() as link:
        for call in (
            link.edit("42", "1", "Hi!"),
            link.delete("42", "1"),
            link.typing("42", None),
            link.find("42", "key-1"),
        ):
            with pytest.raises(AssertionError, match="traits deny"):
                await call


# --- trouble ---


@pytest.mark.parametrize(
    "error",
    [NotSent("Busy."), FloodWait(7), OutcomeUnknown("?"), Refused("No."), ChatGone("They left.")],
    ids=lambda error: type(error).__name__,
)
async def test_a_send_fails_as_often_as_was_asked_for(
    platform: MemoryPlatform, link: Link, error: PlatformError
) -> None:
    platform.fails("send", error, times=2)
    for _ in range(2):
        with pytest.raises(type(error)):
            await link.send(message())
    assert platform.chat("42").texts == []
    await link.send(message())
    assert platform.chat("42").texts == ["Hi."]


async def test_an_answer_can_be_lost_when_the_work_is_done(platform: MemoryPlatform, link: Link) -> None:
    platform.loses_answer()
    with pytest.raises(OutcomeUnknown):
        await link.send(message())
    assert platform.chat("42").texts == ["Hi."]
    assert await link.find("42", "key-1") is not None


async def test_a_slow_call_is_done_all_the_same(
    platform: MemoryPlatform, link: Link, autojump_clock: MockClock
) -> None:
    platform.hangs("send", 10)
    await link.send(message())
    assert platform.chat("42").messages[0].at == trio.current_time() == 10


@pytest.mark.parametrize("arrives", [True, False])
async def test_a_call_that_hangs_has_arrived_or_not(
    platform: MemoryPlatform, link: Link, autojump_clock: MockClock, *, arrives: bool
) -> None:
    platform.hangs("send", arrives=arrives)
    with trio.move_on_after(60) as patience:
        await link.send(message())
    assert patience.cancelled_caught
    assert platform.chat("42").texts == (["Hi."] if arrives else [])


async def test_trouble_can_be_of_one_chat_and_of_one_call(platform: MemoryPlatform, link: Link) -> None:
    platform.fails("send", NotSent("Busy."), chat="7")
    platform.fails("typing", NotSent("Busy."))
    message_id = await link.send(message())
    assert message_id is not None
    await link.edit("42", message_id, "Hi!")
    with pytest.raises(NotSent):
        await link.send(message(chat="7"))
    with pytest.raises(NotSent):
        await link.typing("42", None)


async def test_one_can_wait_until_something_is_so(
    platform: MemoryPlatform, link: Link, autojump_clock: MockClock
) -> None:
    async with trio.open_nursery() as nursery:
        platform.hangs("send", 10)
        nursery.start_soon(link.send, message())
        await platform.until(lambda: platform.chat("42").last == "Hi.")
        assert trio.current_time() == 10


# --- cancelling ---


async def life(adapter: Adapter, stored: list[str]) -> None:
    """Store what people say, until nobody has said anything for a while."""
    async with adapter.connect() as link:
        incoming = link.receive()
        while True:
            with trio.move_on_after(1) as patience:
                event = await anext(incoming)
            if patience.cancelled_caught:
                return
            await trio.lowlevel.checkpoint()
            stored.append(event.text)


async def test_a_receive_that_is_cancelled_anywhere_loses_nothing(autojump_clock: MockClock) -> None:
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


async def test_a_send_that_is_cancelled_anywhere_can_be_sent_again_by_its_key(
    autojump_clock: MockClock,
) -> None:
    for halt in itertools.count(1):
        platform = MemoryPlatform(traits=EVERYTHING)
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
