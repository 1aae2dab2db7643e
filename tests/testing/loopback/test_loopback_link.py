"""The loopback platform: events, connections and calls over TCP."""

from __future__ import annotations

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from hermes_trio.platform.contract import (
    Adapter,
    ChatGone,
    CredentialsRefused,
    FloodWait,
    Link,
    LinkLost,
    NotSent,
    OutcomeUnknown,
    Outgoing,
    PlatformError,
    Refused,
)
from hermes_trio.testing import LoopbackAdapter, LoopbackServer, in_background, open_loopback
from hermes_trio.testing.wire import (
    LONGEST_LINE,
)
from tests.testing.outgoing_messages import message


async def test_an_event_is_accepted_when_the_next_one_is_requested(
    platform: LoopbackServer, link: Link
) -> None:
    event = platform.event("hello", chat="7", user="8", thread_id="9", chat_type="group", reply_to="1")
    accepted = platform.deliver(event)
    incoming = link.receive()
    assert await anext(incoming) == event
    await link.typing("42", None)  # earlier frames have arrived
    assert not accepted.is_set()
    with trio.move_on_after(0.02):
        await anext(incoming)
    await accepted.wait()
    another = platform.post("And this.")
    await link.typing("42", None)
    assert await anext(incoming) == another


async def test_an_event_that_was_not_accepted_comes_first_on_the_next_link(
    platform: LoopbackServer, adapter: Adapter
) -> None:
    said = [platform.post(text) for text in ("one", "two", "three")]
    for start in range(3):
        async with adapter.connect() as link:
            incoming = link.receive()
            assert await anext(incoming) == said[start]
            if start < 2:
                assert await anext(incoming) == said[start + 1]


async def test_events_keep_their_order(platform: LoopbackServer, link: Link) -> None:
    said = [platform.post(f"{i}", chat=str(i % 3)) for i in range(200)]
    incoming = link.receive()
    assert [await anext(incoming) for _ in said] == said


async def test_a_port_without_a_listener_is_a_lost_link() -> None:
    async with open_loopback() as platform:
        port = platform.port
    with pytest.raises(LinkLost, match="No program listens"):
        async with LoopbackAdapter(port).connect():
            pass


@pytest.mark.parametrize("error", [LinkLost("No network."), CredentialsRefused("loopback")])
async def test_connecting_fails_as_often_as_requested(
    platform: LoopbackServer, adapter: Adapter, error: PlatformError
) -> None:
    platform.fails("connect", error, times=2)
    for _ in range(2):
        with pytest.raises(type(error), match=str(error)):
            async with adapter.connect():
                pass
    async with adapter.connect():
        assert platform.connected
    await platform.until(lambda: not platform.connected)


async def test_another_account_is_refused(platform: LoopbackServer) -> None:
    with pytest.raises(CredentialsRefused):
        async with LoopbackAdapter(platform.port, account="second").connect():
            pass


async def test_connecting_can_hang(platform: LoopbackServer, adapter: Adapter) -> None:
    platform.hangs("connect")
    with trio.move_on_after(0.05) as patience:
        async with adapter.connect():
            pass
    assert patience.cancelled_caught
    assert not platform.connected


async def test_a_lost_link_ends_the_wait_for_events(platform: LoopbackServer, link: Link) -> None:
    platform.drop()
    with pytest.raises(LinkLost):
        await anext(link.receive())
    with pytest.raises(NotSent):
        await link.send(message())
    for call in (
        link.edit("42", "1", "Hi!"),
        link.delete("42", "1"),
        link.typing("42", None),
        link.find("42", "key-1"),
    ):
        with pytest.raises(LinkLost):
            await call
    assert platform.chat("42").texts == []


@pytest.mark.parametrize("arrives", [True, False])
async def test_a_send_on_a_link_that_gets_lost_has_an_unknown_outcome(
    platform: LoopbackServer, link: Link, nursery: trio.Nursery, *, arrives: bool
) -> None:
    platform.hangs("send", arrives=arrives)
    nursery.start_soon(_drop_during_a_send, platform, arrives)
    with pytest.raises(OutcomeUnknown):
        await link.send(message())
    assert platform.chat("42").texts == (["Hi."] if arrives else [])


async def _drop_during_a_send(platform: LoopbackServer, arrives: bool) -> None:
    await platform.until(lambda: platform.history[-1].what == "send")
    await platform.until(lambda: bool(platform.chat("42").texts) or not arrives)
    platform.drop()


async def test_a_second_link_ends_the_first(link: Link, adapter: Adapter) -> None:
    async with adapter.connect() as second:
        with pytest.raises(LinkLost):
            await anext(link.receive())
        await second.typing("42", None)


async def test_an_error_in_the_block_of_a_link_is_raised_unchanged(adapter: Adapter) -> None:
    cause = OSError()
    with pytest.raises(LinkLost) as caught:
        async with adapter.connect():
            raise LinkLost("Enough.") from cause
    assert caught.value.__cause__ is cause
    assert not isinstance(caught.value.__context__, BaseExceptionGroup)
    with pytest.raises(ExceptionGroup):
        async with adapter.connect():
            raise ExceptionGroup("two", [ValueError(), TypeError()])


async def test_two_errors_in_a_block_are_both_raised() -> None:
    async def task() -> None:
        try:
            await trio.sleep_forever()
        finally:
            raise ValueError

    async def both() -> None:
        async with in_background(task):
            await wait_all_tasks_blocked()
            raise TypeError

    with pytest.raises(ExceptionGroup) as caught:
        await both()
    assert {type(error) for error in caught.value.exceptions} == {TypeError, ValueError}


async def test_a_chat_shows_messages_that_came_over_tcp(platform: LoopbackServer, link: Link) -> None:
    first = await link.send(Outgoing(chat_id="42", text="One.", key="k1", thread_id="7", reply_to="m-1"))
    second = await link.send(message("Two.", key="k2"))
    assert first is not None
    assert second is not None
    await link.edit("42", first, "One! ☃")
    await link.delete("42", second)
    await link.typing("42", None)
    chat = platform.chat("42")
    assert [(shown.message_id, shown.text, shown.thread_id) for shown in chat.messages] == [
        (first, "One! ☃", "7")
    ]
    assert len(chat.typing_at) == 1
    assert await link.find("42", "k1") == first
    assert await link.find("42", "k3") is None
    assert await link.send(message(key="k1")) == first


@pytest.mark.parametrize(
    "error",
    [
        LinkLost("Down."),
        NotSent("Busy."),
        FloodWait(7.5),
        OutcomeUnknown("?"),
        Refused("No."),
        ChatGone("They left."),
        PlatformError("Something else."),
    ],
    ids=lambda error: type(error).__name__,
)
async def test_an_error_has_the_same_type_text_and_fields_on_the_other_side(
    platform: LoopbackServer, link: Link, error: PlatformError
) -> None:
    platform.fails("send", error)
    with pytest.raises(type(error)) as caught:
        await link.send(message())
    assert str(caught.value) == str(error)
    assert getattr(caught.value, "seconds", None) == getattr(error, "seconds", None)
    await link.send(message())
    assert platform.chat("42").texts == ["Hi."]


async def test_an_answer_can_be_lost_after_the_call_took_effect(platform: LoopbackServer, link: Link) -> None:
    platform.loses_answer()
    with pytest.raises(OutcomeUnknown):
        await link.send(message())
    assert await link.find("42", "key-1") == platform.chat("42").messages[0].message_id


async def test_each_of_many_concurrent_calls_gets_its_own_answer(
    platform: LoopbackServer, link: Link
) -> None:
    platform.hangs("send", chat="0")
    ids: dict[int, str | None] = {}

    async def send(number: int) -> None:
        ids[number] = await link.send(message(f"{number}", chat=str(number), key=f"k{number}"))

    async with trio.open_nursery() as nursery:
        for number in range(50):
            nursery.start_soon(send, number)
        await platform.until(lambda: sum(bool(platform.chat(f"{i}").texts) for i in range(50)) == 49)
        while len(ids) < 49:
            await link.typing("42", None)  # the answers are still arriving
        nursery.cancel_scope.cancel()
    assert 0 not in ids  # its call hangs and delayed no other
    for number, message_id in ids.items():
        assert [shown.message_id for shown in platform.chat(str(number)).messages] == [message_id]


async def test_an_event_can_arrive_while_its_receiver_sends(platform: LoopbackServer, link: Link) -> None:
    for i in range(20):
        platform.post(f"{i}")
    incoming = link.receive()
    for i in range(20):
        event = await anext(incoming)
        await link.send(message(event.text, key=f"k{i}"))
    assert platform.chat("42").texts == [f"{i}" for i in range(20)]


async def test_a_message_that_fits_no_line_is_refused_and_the_link_lives(
    platform: LoopbackServer, link: Link
) -> None:
    for text in ("x" * LONGEST_LINE, "\ud800"):
        with pytest.raises(Refused):
            await link.send(message(text))
    await link.send(message())
    assert platform.chat("42").texts == ["Hi."]
