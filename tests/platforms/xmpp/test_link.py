"""The link, with the server for tests: what is resumed, what is read from the archive, and what is left when
the library fails."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import trio

from hermes_platforms.xmpp.adapter import XmppAdapter
from hermes_platforms.xmpp.place import place_in
from hermes_platforms.xmpp.testing import XmppServer, open_xmpp_server
from hermes_platforms.xmpp.xmpp_link import XmppLink
from hermes_trio.platform import HeldMemory, LinkLost, OutcomeUnknown, Outgoing
from hermes_trio.testing.laws.subject import message

pytestmark = pytest.mark.usefixtures("own_process")


@pytest.fixture
async def server(own_process: None, state_home: Path) -> AsyncIterator[XmppServer]:
    with trio.fail_after(30):
        async with open_xmpp_server() as running:
            yield running


async def test_a_server_without_an_archive_cannot_be_asked(state_home: Path) -> None:
    async with open_xmpp_server(archives=False) as server:
        adapter = XmppAdapter(server.settings)
        async with adapter.connect():
            assert not adapter.traits.finds


async def test_a_process_that_was_killed_goes_on_with_the_first_message_that_is_not_stored(
    server: XmppServer,
) -> None:
    memory = HeldMemory()
    server.post("one")
    server.post("two")
    async with XmppAdapter(server.settings).connect(memory) as link:
        events = link.receive()
        assert [(await anext(events)).text for _ in range(2)] == ["one", "two"]
        await server.until(lambda: len(server.waiting) == 1)
        server.drop()
        await ended(link)
    server.post("three")
    async with XmppAdapter(server.settings).connect(memory) as link:
        assert link.connection.stream.is_resumed
        events = link.receive()
        assert [(await anext(events)).text for _ in range(2)] == ["two", "three"]


async def test_after_the_end_of_the_session_the_archive_is_read_once_and_in_order(server: XmppServer) -> None:
    adapter = XmppAdapter(server.settings)
    server.post("one")
    async with adapter.connect() as link:
        events = link.receive()
        assert (await anext(events)).text == "one"
        server.drop()
        await ended(link)
    server.forget()
    texts = [f"missed {n}" for n in range(5)]
    for text in texts:
        server.post(text)
    async with adapter.connect() as link:
        assert not link.connection.stream.is_resumed
        events = link.receive()
        assert [(await anext(events)).text for _ in range(6)] == ["one", *texts]
        server.post("new")
        assert (await anext(events)).text == "new"


async def test_our_own_messages_in_the_archive_are_read_once(server: XmppServer) -> None:
    memory, adapter = HeldMemory(), XmppAdapter(server.settings)
    for key in ("key-1", "key-2"):
        async with adapter.connect(memory) as link:
            await link.send(message(key=key))
    assert place_in(memory.text).archive == server.archive[0].id, "the second session has read the first one"


async def test_a_message_whose_connection_breaks_is_unknown_and_then_found(server: XmppServer) -> None:
    adapter = XmppAdapter(server.settings)
    server.hangs("send", arrives=True)
    async with adapter.connect() as link, trio.open_nursery() as nursery:

        async def send() -> None:
            with pytest.raises(OutcomeUnknown):
                await link.send(message())

        nursery.start_soon(send)
        await server.until(lambda: bool(server.chat("42").texts))
        server.drop()
    async with adapter.connect() as link:
        assert await link.find("42", "key-1") is not None


async def test_people_on_the_list_may_see_when_we_are_there_and_others_may_not(server: XmppServer) -> None:
    async with XmppAdapter(server.settings).connect() as link:
        await link.send(message())  # the server has seen us by then
        for person in ("42", "43"):
            server.ask_for_presence(person)
        await server.until(lambda: len(server.answered) == 2)
    assert server.answered == {"42": "subscribed", "43": "unsubscribed"}


async def test_typing_is_shown_to_people_and_not_to_rooms(server: XmppServer) -> None:
    async with XmppAdapter(server.settings).connect() as link:
        await link.typing("-100", None)
        await link.typing("42", None)
        await server.until(lambda: bool(server.chat("42").typing_at))
        await link.send(message())
    assert not server.chat("-100").typing_at


async def test_an_error_in_a_task_of_asyncio_is_logged_and_ends_nothing(
    server: XmppServer, caplog: pytest.LogCaptureFixture
) -> None:
    async def fails() -> None:
        raise ValueError("what somebody has written")

    async with XmppAdapter(server.settings).connect() as link:
        loop = link.connection.stream.loop
        loop.call_soon(lambda: 1 / 0)
        task = asyncio.ensure_future(fails(), loop=loop)
        task.add_done_callback(lambda _: None)
        del task
        await link.send(message())
        await link.send(Outgoing(chat_id="42", text="still there", key="key-2"))
    logged = [one.getMessage() for one in caplog.records]
    assert any("ZeroDivisionError" in one for one in logged)
    assert not any("what somebody has written" in one for one in logged)


async def test_a_task_of_asyncio_has_ended_when_the_link_is_left(server: XmppServer) -> None:
    ended_tasks: list[str] = []

    async def waits_for_ever() -> None:
        try:
            await asyncio.sleep(1e9)
        except asyncio.CancelledError:
            await asyncio.sleep(0)
            ended_tasks.append("cancelled")
            raise

    for how in ("left", "cancelled"):
        with trio.move_on_after(5) as scope:
            async with XmppAdapter(server.settings).connect() as link:
                task = asyncio.ensure_future(waits_for_ever(), loop=link.connection.stream.loop)
                await link.send(message())
                if how == "cancelled":
                    scope.cancel()
                    await trio.lowlevel.checkpoint()
        assert task.done()
    assert ended_tasks == ["cancelled"] * 2


async def test_a_question_whose_caller_is_cancelled_disturbs_no_other(server: XmppServer) -> None:
    async with XmppAdapter(server.settings).connect() as link:
        with trio.CancelScope() as scope:
            scope.cancel()
            await link.find("42", "key-1")
        assert scope.cancelled_caught
        await link.send(message())
        assert await link.find("42", "key-1") is not None


async def test_a_server_without_stream_management_is_a_lost_link_that_says_so(server: XmppServer) -> None:
    server.has_acks = False
    with pytest.raises(LinkLost, match="no stream management"):
        async with XmppAdapter(server.settings).connect():
            pass


async def ended(link: XmppLink) -> None:
    """Wait until the link has noticed that its connection broke."""
    await link.connection.stream.ended.wait()
