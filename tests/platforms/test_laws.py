"""What every adapter keeps to, whatever its platform: the contract in `hermes_trio.platform`, as stories.

A new adapter is proven by one more parameter of the fixture `platform`.
"""

from __future__ import annotations

import gc
import os
import sys
from contextlib import suppress
from functools import partial

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from hermes_trio.messages import MessageEvent
from hermes_trio.platform import (
    Button,
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
from tests.platforms.conftest import Platform
from tests.testing.checkpoints import cancelled_at

LINUX = sys.platform == "linux"
MOST_HALTS = 400
CONNECTIONS = int(os.environ.get("CONNECTIONS", "1000"))
PLAIN = "Plain words, and nothing that any dialect could take for a mark"


def message(text: str = PLAIN, *, chat: str = "42", key: str = "key-1") -> Outgoing:
    return Outgoing(chat_id=chat, text=text, key=key)


def accepted(platform: Platform) -> list[str | None]:
    return [one.message_id for one in platform.stage.history if one.what == "accept"]


def sends(platform: Platform) -> int:
    return sum(one.what == "send" for one in platform.stage.history)


async def until_tasks(number: int) -> None:
    """Wait until no more tasks live than so many."""
    while trio.lowlevel.current_statistics().tasks_living > number:  # noqa: ASYNC110
        await trio.sleep(0.01)  # the other side sees the connection end


async def receiving(link: Link, into: list[MessageEvent]) -> None:
    async for event in link.receive():
        into.append(event)  # noqa: PERF401


async def receiving_for_ever(platform: Platform, into: list[MessageEvent]) -> None:
    """Receive, over as many links as it takes."""
    while True:
        try:
            async with platform.adapter.connect() as link:
                await receiving(link, into)
        except LinkLost:
            await trio.sleep(0.1)


async def test_a_message_is_acknowledged_when_the_next_one_is_asked_for_and_not_before(
    platform: Platform,
) -> None:
    first, second = platform.stage.post("one"), platform.stage.post("two")
    async with platform.adapter.connect() as link, trio.open_nursery() as nursery:
        events = link.receive()
        assert (await anext(events)).text == "one"
        await trio.sleep(0.2)
        assert accepted(platform) == []
        assert (await anext(events)).text == "two"
        nursery.start_soon(anext, events)
        await platform.stage.until(lambda: len(accepted(platform)) == 2)
        assert accepted(platform) == [first.message_id, second.message_id]
        nursery.cancel_scope.cancel()


async def test_what_was_not_acknowledged_comes_again_first_over_the_next_connection(
    platform: Platform,
) -> None:
    platform.stage.post("one")
    async with platform.adapter.connect() as link:
        before = await anext(link.receive())
    platform.stage.post("two")
    async with platform.adapter.connect() as link:
        events = link.receive()
        assert await anext(events) == before
        assert (await anext(events)).text == "two"


async def test_what_was_acknowledged_does_not(platform: Platform) -> None:
    heard: list[MessageEvent] = []
    async with platform.adapter.connect() as link, trio.open_nursery() as nursery:
        nursery.start_soon(receiving, link, heard)
        await platform.stage.says("one")
        nursery.cancel_scope.cancel()
    platform.stage.post("two")
    async with platform.adapter.connect() as link:
        assert (await anext(link.receive())).text == "two"


async def test_messages_keep_their_order_and_each_comes_once(platform: Platform) -> None:
    posted = [platform.stage.post(f"number {n}", chat=str(1 + n % 3)) for n in range(150)]
    heard: list[MessageEvent] = []
    async with platform.adapter.connect() as link, trio.open_nursery() as nursery:
        nursery.start_soon(receiving, link, heard)
        await platform.stage.until(lambda: len(accepted(platform)) == 150)
        nursery.cancel_scope.cancel()
    assert [(one.source.chat_id, one.text) for one in heard] == [
        (one.source.chat_id, one.text) for one in posted
    ]


async def test_people_are_told_apart_and_topics_too(platform: Platform) -> None:
    platform.stage.post("/status@hermes_bot", chat="-100", chat_type="group", user="7", thread_id="5")
    platform.stage.post("hello", chat="43")
    async with platform.adapter.connect() as link:
        events = link.receive()
        group, direct = (await anext(events)).source, (await anext(events)).source
    assert (group.chat_type, group.chat_id, group.user_id, group.thread_id) == ("group", "-100", "7", "5")
    assert (direct.chat_type, direct.chat_id, direct.user_id, direct.thread_id) == ("dm", "43", "43", None)
    assert group.platform == direct.platform == platform.adapter.name


async def test_what_is_sent_is_shown_as_it_is_and_can_be_changed(platform: Platform) -> None:
    chat = platform.stage.chat("42")
    async with platform.adapter.connect() as link:
        message_id = await link.send(message())
        assert chat.texts == [PLAIN]
        assert message_id is not None
        for _ in range(2):  # saying the same twice is once
            await link.edit("42", message_id, "Other words")
        assert chat.texts == ["Other words"]
        await link.delete("42", message_id)
        assert chat.texts == []


async def test_a_text_of_the_full_length_fits(platform: Platform) -> None:
    traits = platform.adapter.traits
    wide = "\N{GRINNING FACE}" if traits.counting == "utf-16" else "ä"
    text = wide * (traits.limit // (2 if traits.counting == "utf-16" else 1))
    async with platform.adapter.connect() as link:
        await link.send(message(text))
        assert platform.stage.chat("42").texts == [text]


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (FloodWait(7), FloodWait),
        (NotSent("busy"), NotSent),
        (Refused("no rights to send"), Refused),
        (ChatGone("kicked"), ChatGone),
    ],
)
async def test_a_send_that_is_refused_is_told_by_its_kind_and_not_tried_again(
    platform: Platform, error: PlatformError, told: type[PlatformError]
) -> None:
    platform.stage.fails("send", error)
    async with platform.adapter.connect() as link:
        with pytest.raises(told) as caught:
            await link.send(message())
        assert isinstance(caught.value, ChatGone) == isinstance(error, ChatGone)
        if isinstance(caught.value, FloodWait) and isinstance(error, FloodWait):
            assert caught.value.seconds == error.seconds
        assert (sends(platform), platform.stage.chat("42").texts) == (1, [])
        await link.send(message())
        assert platform.stage.chat("42").texts == [PLAIN]


async def test_a_send_whose_answer_is_lost_is_not_repeated(platform: Platform) -> None:
    platform.stage.loses_answer()
    async with platform.adapter.connect() as link:
        with pytest.raises(OutcomeUnknown):
            await link.send(message())
        assert (sends(platform), platform.stage.chat("42").texts) == (1, [PLAIN])


async def test_an_edit_that_floods_says_for_how_long(platform: Platform) -> None:
    async with platform.adapter.connect() as link:
        message_id = await link.send(message())
        assert message_id is not None
        platform.stage.fails("edit", FloodWait(9))
        with pytest.raises(FloodWait) as flood:
            await link.edit("42", message_id, "Other words")
        assert flood.value.seconds == 9
        assert platform.stage.chat("42").texts == [PLAIN]


async def test_credentials_that_are_refused_are_told_as_such(platform: Platform) -> None:
    platform.stage.fails("connect", CredentialsRefused(platform.adapter.name))
    with pytest.raises(CredentialsRefused):
        async with platform.adapter.connect():
            pass
    async with platform.adapter.connect() as link:  # and nothing of it is left
        await link.send(message())


async def test_a_connection_that_breaks_loses_nothing_that_people_say(platform: Platform) -> None:
    heard: list[MessageEvent] = []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(receiving_for_ever, platform, heard)
        await platform.stage.says("before")
        platform.stage.drop()  # type: ignore[attr-defined]
        await platform.stage.says("after")
        nursery.cancel_scope.cancel()
    assert list(dict.fromkeys(one.text for one in heard)) == ["before", "after"]


async def test_a_call_that_is_cancelled_disturbs_no_other(platform: Platform) -> None:
    platform.stage.hangs("send", chat="1")
    async with platform.adapter.connect() as link:
        with trio.move_on_after(0.5) as patience:
            await link.send(message(chat="1"))
        assert patience.cancelled_caught
        await link.send(message(chat="2"))
        assert platform.stage.chat("2").texts == [PLAIN]


async def test_whoever_leaves_in_the_middle_leaves_nothing_behind(platform: Platform) -> None:
    await wait_all_tasks_blocked()
    before = trio.lowlevel.current_statistics().tasks_living
    platform.stage.hangs("send")
    with trio.move_on_after(0.5):
        async with platform.adapter.connect() as link, trio.open_nursery() as nursery:
            nursery.start_soon(receiving, link, [])
            nursery.start_soon(link.send, message())
            await link.typing("42", None)
            await trio.sleep_forever()
    await until_tasks(before)


async def test_calls_of_many_chats_do_not_wait_for_each_other(platform: Platform) -> None:
    platform.stage.hangs("send", chat="1")
    async with platform.adapter.connect() as link, trio.open_nursery() as nursery:
        nursery.start_soon(link.send, message(chat="1"))
        async with trio.open_nursery() as others:
            for n in range(2, 42):
                others.start_soon(link.send, message(chat=str(n)))
        assert all(platform.stage.chat(str(n)).texts == [PLAIN] for n in range(2, 42))
        nursery.cancel_scope.cancel()


async def test_whoever_still_holds_a_link_that_was_left_is_told_what_is_known(platform: Platform) -> None:
    told: list[type[PlatformError]] = []
    platform.stage.hangs("send", chat="1")

    async def send(link: Link, chat: str) -> None:
        try:
            await link.send(message(chat=chat))
        except PlatformError as error:
            told.append(type(error))

    async with trio.open_nursery() as nursery, platform.adapter.connect() as link:
        nursery.start_soon(send, link, "1")  # noqa: ASYNC111
        await platform.stage.until(lambda: sends(platform) == 1)
    await send(link, "2")
    assert told == [OutcomeUnknown, NotSent]
    for call in (link.edit("42", "1", "Other words"), link.delete("42", "1"), link.typing("42", None)):
        with pytest.raises(LinkLost):
            await call
    with pytest.raises(LinkLost):
        await anext(link.receive())


async def test_a_button_that_is_pressed_is_told_once_and_an_edit_takes_it_away(platform: Platform) -> None:
    heard: list[MessageEvent] = []
    chat = platform.stage.chat("42")
    both = (Button("Yes, do it", "a:1:once"), Button("No", "a:1:deny"))
    async with platform.adapter.connect() as link, trio.open_nursery() as nursery:
        message_id = await link.send(Outgoing(chat_id="42", text=PLAIN, key="key-1", buttons=both))
        assert message_id is not None
        nursery.start_soon(receiving, link, heard)
        pressed = await platform.stage.presses("No")
        await platform.stage.says("hello")
        assert [(one.kind, one.text, one.reply_to) for one in heard] == [
            ("callback", "a:1:deny", message_id),
            ("text", "hello", None),
        ]
        assert (heard[0].message_id, heard[0].source.user_id) == (pressed.message_id, "42")
        await link.edit("42", message_id, PLAIN)
        assert [(one.text, one.buttons) for one in chat.messages] == [(PLAIN, ())]
        nursery.cancel_scope.cancel()


async def test_what_grows_in_bad_weather_says_in_the_end_exactly_what_it_should(platform: Platform) -> None:
    words = [f"word {n}" for n in range(40)]
    async with platform.adapter.connect() as link:
        message_id = await link.send(message("word"))
        assert message_id is not None
        for n in range(1, 41):
            match n % 4:
                case 1:
                    platform.stage.fails("edit", FloodWait(3))
                case 2:
                    platform.stage.fails("edit", Refused("not now"))
                case 3:
                    platform.stage.hangs("edit", arrives=True)
            with trio.move_on_after(0.05), suppress(PlatformError):
                await link.edit("42", message_id, " ".join(words[:n]))
        for _ in range(2):
            await link.edit("42", message_id, " ".join(words))
        assert platform.stage.chat("42").texts == [" ".join(words)]


async def test_a_connect_that_is_cancelled_at_any_checkpoint_leaves_nothing_behind(
    platform: Platform,
) -> None:
    async def connect() -> None:
        async with platform.adapter.connect():
            pass

    await wait_all_tasks_blocked()
    before = trio.lowlevel.current_statistics().tasks_living
    for halt in range(1, MOST_HALTS):
        if not await cancelled_at(halt, connect):
            break
        await connect()
    else:
        raise AssertionError("It never gets through.")
    await until_tasks(before)


async def test_a_send_that_is_cancelled_at_any_checkpoint_has_arrived_once_or_not_at_all(
    platform: Platform,
) -> None:
    async with platform.adapter.connect() as link:
        for halt in range(1, MOST_HALTS):
            chat = platform.stage.chat(str(1000 + halt))
            cancelled = await cancelled_at(halt, partial(link.send, message(chat=chat.chat_id)))
            await link.send(message(chat="42"))  # and it disturbs nothing else
            assert chat.texts in ([], [PLAIN])
            if not cancelled:
                assert chat.texts == [PLAIN]
                return
    raise AssertionError("It never gets through.")


async def test_a_receive_that_is_cancelled_at_any_checkpoint_loses_nothing_and_keeps_the_order(
    platform: Platform,
) -> None:
    stored: list[str] = []

    async def receive(until: str) -> None:
        async with platform.adapter.connect() as link:
            async for event in link.receive():
                stored.append(event.text)
                if event.text == until:
                    return

    for halt in range(1, MOST_HALTS):
        texts = [f"{halt}-{n}" for n in range(4)]
        for text in texts:
            platform.stage.post(text)
        stored.clear()
        cancelled = await cancelled_at(halt, partial(receive, texts[-1]))
        if cancelled:
            await receive(texts[-1])
        # The last of the time before was not acknowledged, and comes first.
        heard = [text for text in dict.fromkeys(stored) if text.startswith(f"{halt}-")]
        assert heard == texts
        if not cancelled:
            return
    raise AssertionError("It never gets through.")


@pytest.mark.timeout(300)
async def test_many_connections_leave_nothing_behind(platform: Platform) -> None:
    async def connect() -> None:
        async with platform.adapter.connect() as link:
            await link.send(message())
            platform.stage.chat("42").messages.clear()

    def held() -> tuple[int, int]:
        for kept in ("history", "asked", "entities"):
            getattr(platform.stage, kept, []).clear()
        gc.collect()
        return len(gc.get_objects()), len(os.listdir("/proc/self/fd")) if LINUX else 0

    for _ in range(20):
        await connect()
    await wait_all_tasks_blocked(0.05)
    tasks, (objects, files) = trio.lowlevel.current_statistics().tasks_living, held()
    for _ in range(CONNECTIONS):
        await connect()
    await until_tasks(tasks)
    objects_now, files_now = held()
    assert files_now <= files + 2
    assert objects_now < objects + CONNECTIONS, "less than one object for each"
