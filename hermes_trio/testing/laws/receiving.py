"""Laws of receiving: an event is stored before it is acknowledged, comes once and in order, and names its
sender."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from functools import partial
from typing import cast

import pytest
import trio

from ...base.messages import Attachment, MessageEvent
from ...platform.contract import (
    STOPPED_DRAFT,
    Adapter,
    Button,
    Draft,
    HeldMemory,
    Link,
    LinkLost,
    Outgoing,
    Refused,
    RememberingAdapter,
)
from ..checkpoints import cancelled_at
from .subject import MOST_HALTS, PLAIN, Platform, needs


async def receiving(link: Link, into: list[MessageEvent]) -> None:
    """Append the events of a link to a list, until the link is lost."""
    async for event in link.receive():
        into.append(event)  # noqa: PERF401


async def receiving_for_ever(platform: Platform, into: list[MessageEvent]) -> None:
    """Append events to a list, and connect again after each lost link."""
    while True:
        try:
            async with platform.adapter.connect() as link:
                await receiving(link, into)
        except LinkLost:
            await trio.sleep(0.1)


@needs("redelivers")
async def test_a_message_is_acknowledged_when_the_next_one_is_asked_for_and_not_before(
    platform: Platform,
) -> None:
    first, second = platform.stage.post("one"), platform.stage.post("two")
    async with platform.adapter.connect() as link, trio.open_nursery() as nursery:
        events = link.receive()
        assert (await anext(events)).text == "one"
        await trio.sleep(0.2)
        assert platform.accepted == []
        assert (await anext(events)).text == "two"
        nursery.start_soon(anext, events)
        await platform.stage.until(lambda: len(platform.accepted) == 2)
        assert platform.accepted == [first.message_id, second.message_id]
        nursery.cancel_scope.cancel()


@needs("redelivers")
async def test_an_event_that_was_not_acknowledged_is_the_first_of_the_next_connection(
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


async def test_an_acknowledged_event_does_not_come_again(platform: Platform) -> None:
    heard: list[MessageEvent] = []
    async with platform.adapter.connect() as link, trio.open_nursery() as nursery:
        nursery.start_soon(receiving, link, heard)
        await platform.stage.says("one")
        nursery.cancel_scope.cancel()
    platform.stage.post("two")
    async with platform.adapter.connect() as link:
        assert (await anext(link.receive())).text == "two"


@needs("redelivers")
async def test_an_adapter_of_the_next_process_continues_after_the_last_stored_event(
    platform: Platform,
) -> None:
    memory, heard = HeldMemory(), list[MessageEvent]()

    def connect(adapter: Adapter) -> AbstractAsyncContextManager[Link]:
        if adapter.traits.remembers:
            return cast(RememberingAdapter, adapter).connect(memory)
        return adapter.connect()

    async with connect(platform.adapter) as link, trio.open_nursery() as nursery:
        nursery.start_soon(receiving, link, heard)
        await platform.stage.says("one")
        await platform.stage.says("two")
        nursery.cancel_scope.cancel()
    platform.stage.post("while nobody listened")
    async with connect(platform.next_life()) as link:
        events = link.receive()
        while (event := await anext(events)).text != "while nobody listened":
            assert event in heard[-1:], "only what was stored last may come again"
        platform.stage.post("afterwards")
        assert (await anext(events)).text == "afterwards"


async def test_messages_keep_their_order_and_each_comes_once(platform: Platform) -> None:
    posted = [platform.stage.post(f"number {n}", chat=str(1 + n % 3)) for n in range(150)]
    heard: list[MessageEvent] = []
    async with platform.adapter.connect() as link, trio.open_nursery() as nursery:
        nursery.start_soon(receiving, link, heard)
        await platform.stage.until(lambda: len(platform.accepted) == 150)
        nursery.cancel_scope.cancel()
    assert [(one.source.chat_id, one.text) for one in heard] == [
        (one.source.chat_id, one.text) for one in posted
    ]


async def test_an_event_names_its_chat_its_person_and_its_topic(platform: Platform) -> None:
    # In a group a bot may get only the messages that name it: this is the name of the simulated one.
    platform.stage.post("/status@hermes_bot", chat="-100", chat_type="group", user="7", thread_id="5")
    platform.stage.post("hello", chat="43")
    async with platform.adapter.connect() as link:
        events = link.receive()
        group, direct = (await anext(events)).source, (await anext(events)).source
    assert (group.chat_type, group.chat_id, group.user_id) == ("group", "-100", "7")
    assert group.thread_id == "5" or not platform.has("threads")
    assert (direct.chat_type, direct.chat_id, direct.user_id, direct.thread_id) == ("dm", "43", "43", None)
    assert group.platform == direct.platform == platform.adapter.name


@needs("buttons", "edits")
async def test_a_press_is_one_event_and_an_edit_removes_the_buttons(platform: Platform) -> None:
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


@needs("drafts")
async def test_a_stopped_draft_is_one_event_with_the_number_of_the_draft(platform: Platform) -> None:
    heard: list[MessageEvent] = []
    async with platform.adapter.connect() as link, trio.open_nursery() as nursery:
        await link.draft(Draft(chat_id="42", number=2**31 - 1, text=PLAIN))
        nursery.start_soon(receiving, link, heard)
        await platform.stage.deliver(platform.stage.stop_draft()).wait()
        await platform.stage.says("hello")
        kinds = [(one.kind, one.text, one.source.user_id) for one in heard]
        assert kinds == [("callback", f"{STOPPED_DRAFT}{2**31 - 1}", "42"), ("text", "hello", "42")]
        assert heard[0].message_key is not None, "a second delivery is recognised"
        nursery.cancel_scope.cancel()


@needs("fetches")
async def test_an_attachment_is_fetched_unless_it_is_longer_than_the_limit(platform: Platform) -> None:
    platform.stage.files["7"] = data = bytes(range(256)) * 8
    said = platform.stage.event("What is this?")
    file = Attachment("document", name="a.bin", size=len(data), file_id="7")
    platform.stage.deliver(replace(said, attachments=(file,)))
    async with platform.adapter.connect() as link:
        event = await anext(link.receive())
        [attached] = event.attachments
        assert (event.text, attached.kind, attached.name) == ("What is this?", "document", "a.bin")
        assert attached.file_id is not None
        assert await link.fetch(attached.file_id, len(data)) == data
        with pytest.raises(Refused):
            await link.fetch(attached.file_id, len(data) - 1)
        with pytest.raises(Refused):
            await link.fetch("none of this name", len(data))


@needs("redelivers")
async def test_a_broken_connection_loses_no_event(platform: Platform) -> None:
    heard: list[MessageEvent] = []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(receiving_for_ever, platform, heard)
        await platform.stage.says("before")
        platform.stage.drop()
        await platform.stage.says("after")
        nursery.cancel_scope.cancel()
    assert list(dict.fromkeys(one.text for one in heard)) == ["before", "after"]


@needs("redelivers")
async def test_a_receiver_that_is_cancelled_at_any_checkpoint_loses_no_event_and_keeps_the_order(
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
        # The last event of the previous round was not acknowledged, and comes first.
        heard = [text for text in dict.fromkeys(stored) if text.startswith(f"{halt}-")]
        assert heard == texts
        if not cancelled:
            return
    raise AssertionError(f"{MOST_HALTS} checkpoints and no end.")


async def test_a_wait_that_is_cancelled_at_any_checkpoint_and_repeated_misses_no_event(
    platform: Platform,
) -> None:
    async with platform.adapter.connect() as link:
        events, heard = link.receive(), list[str]()

        async def listen() -> None:
            heard.append((await anext(events)).text)

        for halt in range(1, MOST_HALTS):
            posted = platform.stage.post(f"number {halt}")
            cancelled = await cancelled_at(halt, listen)
            if len(heard) < halt:
                await listen()
            assert heard[halt - 1 :] == [posted.text]
            if not cancelled:
                return
    raise AssertionError(f"{MOST_HALTS} checkpoints and no end.")
