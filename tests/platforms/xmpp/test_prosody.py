"""The adapter on a real server: Prosody of Debian, with TLS, an archive and a room. The person is an account
with the same adapter."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest
import trio

from hermes_platforms.xmpp.adapter import XmppAdapter
from hermes_platforms.xmpp.checks import check
from hermes_platforms.xmpp.xmpp_link import XmppLink
from hermes_trio import GatewayConfig, PlatformConfig, open_gateway
from hermes_trio.platform import (
    ChatGone,
    CredentialsRefused,
    HeldMemory,
    Link,
    LinkLost,
    MessageEvent,
    OutcomeUnknown,
    Outgoing,
)
from tests.platforms.xmpp.prosody_server import (
    MAY_RUN,
    PATIENCE,
    ROOM,
    Prosody,
    relay_to,
    running_prosody,
)

pytestmark = pytest.mark.skipif(not MAY_RUN, reason="needs Prosody, and root")
HERMES, ANN = "hermes@localhost", "ann@localhost"


@pytest.fixture(scope="module")
def one_prosody() -> Iterator[Prosody]:
    with running_prosody() as server:
        yield server


@pytest.fixture
async def prosody(one_prosody: Prosody, own_process: None, state_home: Path) -> AsyncIterator[Prosody]:
    with trio.fail_after(PATIENCE):
        yield one_prosody


def to(chat: str, text: str, key: str = "") -> Outgoing:
    return Outgoing(chat_id=chat, text=text, key=key or text)


@asynccontextmanager
async def person(prosody: Prosody, name: str = "ann") -> AsyncIterator[XmppLink]:
    """Connect a person, who hears everything in the room."""
    settings = replace(prosody.settings(name), require_mention=False)
    async with XmppAdapter(settings, account=name).connect() as link:
        yield link


async def heard(link: Link, text: str) -> MessageEvent:
    """Read until an event with this text."""
    async for event in link.receive():
        if event.text == text:
            return event
    raise AssertionError("unreachable")


async def test_people_are_heard_in_direct_chats_and_where_they_name_us(prosody: Prosody) -> None:
    async with XmppAdapter(prosody.settings("hermes")).connect() as link, person(prosody) as ann:
        events = link.receive()
        await ann.send(to(HERMES, "hello <&> \x01 😀"))
        direct = await anext(events)
        await ann.send(to(HERMES, "!stop"))
        assert (await anext(events)).text == "/stop"
        await ann.send(to(ROOM, "this is for nobody"))
        await ann.send(to(ROOM, "Hermes: what is new?"))
        in_room = await anext(events)
    assert direct.text == "hello <&> \N{REPLACEMENT CHARACTER} 😀"
    source = direct.source
    assert (source.chat_id, source.chat_type, source.user_id) == (ANN, "dm", ANN)
    source = in_room.source
    assert (in_room.text, source.chat_id, source.chat_type) == ("what is new?", ROOM, "group")
    assert source.user_id == ANN, "the room shows addresses"


async def test_a_session_is_resumed_and_nothing_is_lost_or_heard_twice(prosody: Prosody) -> None:
    memory, settings = HeldMemory(), prosody.settings("hermes")
    async with relay_to(prosody.port) as relay, person(prosody) as ann:
        settings = replace(settings, port=relay.port)
        async with XmppAdapter(settings).connect(memory) as link:
            events = link.receive()
            await link.send(to(ROOM, "I am here"))
            for text in ("stored", "not stored"):
                await ann.send(to(HERMES, text))
                assert (await anext(events)).text == text
            relay.cut()
            await link.connection.stream.ended.wait()
        await ann.send(to(ROOM, "hermes: while you were away"))
        async with XmppAdapter(settings).connect(memory) as link:  # as another process does
            assert link.connection.stream.is_resumed
            events = link.receive()
            assert [(await anext(events)).text for _ in range(2)] == ["not stored", "while you were away"]
            await ann.send(to(HERMES, "afterwards"))
            assert (await anext(events)).text == "afterwards"


async def test_a_message_whose_acknowledgement_is_lost_is_found_in_the_archive(prosody: Prosody) -> None:
    async with relay_to(prosody.port) as relay, person(prosody) as ann:
        adapter = XmppAdapter(prosody.settings("hermes", port=relay.port))
        async with adapter.connect() as link:
            await link.send(to(ROOM, "in the room", key="room-1"))
            relay.is_deaf = True
            async with trio.open_nursery() as nursery:
                nursery.start_soon(unknown, link, to(ANN, "did it arrive?", key="key-1"))
                await heard(ann, "did it arrive?")
                relay.cut()
        async with adapter.connect() as link:
            assert await link.find(ANN, "key-1") is not None
            assert await link.find(ANN, "key-2") is None
            assert await link.find(ROOM, "room-1") is not None
            assert await link.find(ROOM, "room-2") is None


async def unknown(link: Link, message: Outgoing) -> None:
    with pytest.raises(OutcomeUnknown):
        await link.send(message)


async def test_a_session_that_has_ended_is_continued_from_the_archive(prosody: Prosody) -> None:
    memory, adapter = HeldMemory(), XmppAdapter(prosody.settings("hermes"))
    async with person(prosody) as ann:
        async with adapter.connect(memory) as link:
            await ann.send(to(HERMES, "before"))
            await heard(link, "before")
            with trio.move_on_after(0.2):
                await anext(link.receive())
        await ann.send(to(HERMES, "one"))
        await ann.send(to(HERMES, "two"))
        async with adapter.connect(memory) as link:
            events = link.receive()
            texts = [(await anext(events)).text for _ in range(2)]
            while texts[-1] != "two":
                texts.append((await anext(events)).text)
    assert [one for one in texts if one != "before"] == ["one", "two"]


async def test_a_chat_that_does_not_exist_is_gone_and_others_are_not(prosody: Prosody) -> None:
    async with XmppAdapter(prosody.settings("hermes")).connect() as link, person(prosody) as ann:
        with pytest.raises(ChatGone):
            await link.send(to("nobody@localhost", "hello"))
        await link.send(to(ANN, "hello"))
        assert (await heard(ann, "hello")).source.chat_id == HERMES


async def test_a_wrong_password_is_final_and_a_foreign_certificate_is_not_trusted(prosody: Prosody) -> None:
    with pytest.raises(CredentialsRefused):
        async with XmppAdapter(prosody.settings("hermes", password="wrong")).connect():
            pass
    with pytest.raises(LinkLost, match="certificate is not trusted"):
        async with XmppAdapter(replace(prosody.settings("hermes"), tls_ca=None)).connect():
            pass
    with pytest.raises(LinkLost):
        async with XmppAdapter(replace(prosody.settings("hermes"), tls=False)).connect():
            pass


async def test_a_gateway_answers_and_doctor_disturbs_it_not(prosody: Prosody, tmp_path: Path) -> None:
    async def answer(turn: object) -> str:
        return "first line\n\nsecond line"

    config = GatewayConfig(platforms={"xmpp": PlatformConfig(allow_from=(ANN,))})
    adapter = XmppAdapter(prosody.settings("hermes"))
    options = {
        "address": HERMES,
        "password": adapter._settings.password,
        "server": f"127.0.0.1:{prosody.port}",
        "tls_ca": prosody.certificate,
        "rooms": ROOM,
    }
    async with (
        open_gateway(tmp_path / "home", config, agent=answer, adapters=[adapter]),
        person(prosody) as ann,
    ):
        await ann.send(to(ROOM, "here"))
        found = await check(PlatformConfig(allow_from=(ANN,), options=options))
        await ann.send(to(HERMES, "hello"))
        await heard(ann, "first line\n\nsecond line")
    assert [one.level for one in found] == ["ok"] * len(found), found
    texts = " ".join(one.text for one in found)
    assert "has an archive" in texts
    assert f"the room {ROOM} is there" in texts
