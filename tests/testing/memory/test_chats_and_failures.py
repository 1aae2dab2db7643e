"""A stage: chats that show what was sent, and failures on demand."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from hermes_trio.platform.contract import (
    ChatGone,
    Counting,
    FloodWait,
    Link,
    NotSent,
    OutcomeUnknown,
    Outgoing,
    PlatformError,
    Refused,
    Traits,
)
from hermes_trio.testing import MemoryPlatform
from tests.testing.outgoing_messages import message


async def test_a_chat_shows_messages_as_a_person_sees_them(
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
async def test_a_chat_refuses_a_text_that_is_too_long_or_blank(
    counting: Counting, fits: str, too_long: str
) -> None:
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


async def test_a_message_that_does_not_exist_cannot_be_changed(link: Link) -> None:
    with pytest.raises(Refused):
        await link.edit("42", "no-such", "Hi!")
    with pytest.raises(Refused):
        await link.delete("42", "no-such")


async def test_two_sends_with_one_key_show_one_message_if_the_platform_takes_keys(
    platform: MemoryPlatform, link: Link
) -> None:
    assert await link.send(message()) == await link.send(message())
    assert await link.find("42", "key-1") == platform.chat("42").messages[0].message_id
    assert await link.find("42", "key-2") is None
    assert platform.chat("42").texts == ["Hi."]


@pytest.mark.parametrize("takes_keys_for", [0, 30])
async def test_two_sends_with_one_key_show_two_messages_if_the_platform_does_not_know_the_key(
    autojump_clock: MockClock, takes_keys_for: float
) -> None:
    platform = MemoryPlatform(traits=Traits(takes_keys_for=takes_keys_for))
    async with platform.connect() as link:
        first = await link.send(message())
        await trio.sleep(31)
        assert first != await link.send(message())
    assert platform.chat("42").texts == ["Hi.", "Hi."]


async def test_a_call_that_the_traits_deny_is_an_assertion_error() -> None:
    async with MemoryPlatform().connect() as link:
        for call in (
            link.edit("42", "1", "Hi!"),
            link.delete("42", "1"),
            link.typing("42", None),
            link.find("42", "key-1"),
        ):
            with pytest.raises(AssertionError, match="traits deny"):
                await call


@pytest.mark.parametrize(
    "error",
    [NotSent("Busy."), FloodWait(7), OutcomeUnknown("?"), Refused("No."), ChatGone("They left.")],
    ids=lambda error: type(error).__name__,
)
async def test_a_send_fails_as_often_as_requested(
    platform: MemoryPlatform, link: Link, error: PlatformError
) -> None:
    platform.fails("send", error, times=2)
    for _ in range(2):
        with pytest.raises(type(error)):
            await link.send(message())
    assert platform.chat("42").texts == []
    await link.send(message())
    assert platform.chat("42").texts == ["Hi."]


async def test_an_answer_can_be_lost_after_the_call_took_effect(platform: MemoryPlatform, link: Link) -> None:
    platform.loses_answer()
    with pytest.raises(OutcomeUnknown):
        await link.send(message())
    assert platform.chat("42").texts == ["Hi."]
    assert await link.find("42", "key-1") is not None


async def test_a_slow_call_takes_effect_in_the_end(
    platform: MemoryPlatform, link: Link, autojump_clock: MockClock
) -> None:
    platform.hangs("send", 10)
    await link.send(message())
    assert platform.chat("42").messages[0].at == trio.current_time() == 10


@pytest.mark.parametrize("arrives", [True, False])
async def test_a_call_that_hangs_took_effect_or_not_as_requested(
    platform: MemoryPlatform, link: Link, autojump_clock: MockClock, *, arrives: bool
) -> None:
    platform.hangs("send", arrives=arrives)
    with trio.move_on_after(60) as patience:
        await link.send(message())
    assert patience.cancelled_caught
    assert platform.chat("42").texts == (["Hi."] if arrives else [])


async def test_a_failure_can_concern_one_chat_or_one_call(platform: MemoryPlatform, link: Link) -> None:
    platform.fails("send", NotSent("Busy."), chat="7")
    platform.fails("typing", NotSent("Busy."))
    message_id = await link.send(message())
    assert message_id is not None
    await link.edit("42", message_id, "Hi!")
    with pytest.raises(NotSent):
        await link.send(message(chat="7"))
    with pytest.raises(NotSent):
        await link.typing("42", None)


async def test_until_waits_for_a_condition(
    platform: MemoryPlatform, link: Link, autojump_clock: MockClock
) -> None:
    async with trio.open_nursery() as nursery:
        platform.hangs("send", 10)
        nursery.start_soon(link.send, message())
        await platform.until(lambda: platform.chat("42").last == "Hi.")
        assert trio.current_time() == 10
