"""Connections of the adapter to the simulated server, and their troubles: cuts at any byte, silence, floods,
other people with our nick, a kick. Most run on a virtual clock, over streams in memory."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import trio

from hermes_platforms.irc.adapter import IrcAdapter
from hermes_platforms.irc.irc_link import IrcLink
from hermes_platforms.irc.testing import MODERN, OLD, IrcServer, open_irc_server
from hermes_trio.platform import (
    ChatGone,
    CredentialsRefused,
    FloodWait,
    LinkLost,
    MessageEvent,
    NotSent,
    OutcomeUnknown,
    Outgoing,
    Refused,
)

Connect = Callable[..., AbstractAsyncContextManager[IrcLink]]


@pytest.fixture
def server(state_home: Path) -> IrcServer:
    """A server in memory, with a clock that jumps."""
    return IrcServer("irc", "main", 6667, MODERN)


@pytest.fixture
async def connect(server: IrcServer, nursery: trio.Nursery, autojump_clock: object) -> Connect:
    @asynccontextmanager
    async def connected(**changes: Any) -> AsyncIterator[IrcLink]:
        settings = replace(server.settings, **changes)

        async def open_stream(_: object) -> trio.abc.Stream:
            return await server.open(nursery)

        async with IrcAdapter(settings, open_stream=open_stream).connect() as link:
            yield link

    return connected


def to(chat: str, text: str) -> Outgoing:
    return Outgoing(chat_id=chat, text=text, key=text[:20])


async def test_a_server_that_says_nothing_is_asked_and_then_lost(server: IrcServer, connect: Connect) -> None:
    async with connect() as link:
        server.silent = True
        with pytest.raises(LinkLost, match="silent for 180 seconds"):
            await anext(link.receive())
        with pytest.raises(NotSent):
            await link.send(to("42", "hello"))
    assert "PING still-there" in server.read


async def test_a_server_that_answers_the_question_is_not_lost(server: IrcServer, connect: Connect) -> None:
    async with connect() as link:
        with trio.move_on_after(3600) as hour:
            await anext(link.receive())
    assert hour.cancelled_caught
    assert server.read.count("PING still-there") >= 10


async def test_a_server_that_completes_no_registration_is_lost(server: IrcServer, connect: Connect) -> None:
    server.silent = True
    with pytest.raises(LinkLost, match="did not complete"):
        async with connect():
            pass


@pytest.mark.parametrize("caps", [MODERN, OLD])
async def test_a_long_answer_is_no_flood(server: IrcServer, connect: Connect, caps: tuple[str, ...]) -> None:
    server.caps, server.most_at_once = caps, 12
    lines = [f"line {n}" for n in range(25)]
    async with connect(line_seconds=1.5) as link:
        await trio.sleep(60)
        await link.send(to("42", "\n\n".join(lines)))
        assert server.chat("42").texts == [" ¦ ".join(lines[at : at + 2]) for at in range(0, 25, 2)]
    assert not any("Excess" in one for one in server.read)


async def test_all_chats_share_one_pace_and_who_would_wait_too_long_is_told_so(
    server: IrcServer, connect: Connect
) -> None:
    refused: list[float] = []

    async def send(link: IrcLink, chat: str) -> None:
        try:
            await link.send(to(chat, "one\n\ntwo\n\nthree\n\nfour\n\nfive"))
        except FloodWait as wait:
            refused.append(wait.seconds)

    async with connect(line_seconds=1.0) as link:
        await trio.sleep(60)
        begun = trio.current_time()
        async with trio.open_nursery() as nursery:
            for chat in map(str, range(1, 8)):
                nursery.start_soon(send, link, chat)
        took = trio.current_time() - begun
    assert len(refused) == 7 - sum(bool(server.chat(str(n)).texts) for n in range(1, 8)) > 0
    sent = sum(len(server.chat(str(n)).texts) for n in range(1, 8))
    assert took == pytest.approx(sent - 5)


async def test_a_flood_kill_within_a_long_message_is_an_unknown_outcome(
    server: IrcServer, connect: Connect
) -> None:
    server.most_at_once = 12
    async with connect() as link:
        await trio.sleep(60)
        with pytest.raises(OutcomeUnknown):
            await link.send(to("42", "\n\n".join(map(str, range(20)))))
        with pytest.raises(LinkLost, match="Excess Flood"):
            await anext(link.receive())


async def test_our_nick_is_taken_back_once_it_is_free(server: IrcServer, connect: Connect) -> None:
    server.taken = {"Hermes", "hermes_"}
    async with connect(require_mention=True) as link:
        assert link.connection.me.nick == "hermes_2"
        server.taken.clear()
        await trio.sleep(121)
        assert link.connection.me.nick == "hermes"
        await server.says("hello", chat="#ours", user="7", chat_type="group")
        assert (await anext(link.receive())).text == "hello"


async def test_a_kick_and_a_netsplit_end_no_connection_and_the_channel_is_joined_again(
    server: IrcServer, connect: Connect
) -> None:
    async with connect(channels=("#ours", "#closed key")) as link:
        await server.until(lambda: "JOIN #closed key" in server.read)
        await trio.sleep(1)
        server.writes(
            ":kim!k@h QUIT :one.simulated two.simulated",
            ":op!o@h KICK #ours hermes :not now",
            "noise",
            ":",
            "@",
        )
        await trio.sleep(1)
        server.fails("send", Refused("not in it"))
        with pytest.raises(NotSent, match="not in the channel now"):
            await link.send(to("#ours", "hello"))
        await trio.sleep(60)
        assert server.read.count("JOIN #ours") == 2
        await link.send(to("#ours", "hello again"))
    assert server.chat("#ours").texts == ["hello again"]


async def test_a_stranger_with_the_nick_of_a_listed_person_is_another_person(
    server: IrcServer, connect: Connect
) -> None:
    for caps in (MODERN, OLD):
        server.caps, server.strangers = caps, set()
        async with connect(known=("7",)) as link:
            events = link.receive()
            server.post("hello", chat="7")
            assert (await anext(events)).source.user_id == "7"
            server.strangers = {"7"}
            server.post("hello", chat="7")
            assert (await anext(events)).source.user_id == "7!u7@people.simulated"


async def test_a_person_whose_nick_has_another_owner_when_we_ask_gets_no_account(
    server: IrcServer, connect: Connect
) -> None:
    server.caps = OLD
    async with connect() as link:
        server.writes(":7!impostor@elsewhere PRIVMSG hermes :hello")
        assert (await anext(link.receive())).source.user_id == "7!impostor@elsewhere"


async def test_a_message_that_is_not_stored_comes_again_while_the_process_lives(
    server: IrcServer, nursery: trio.Nursery, autojump_clock: object
) -> None:
    async def open_stream(_: object) -> trio.abc.Stream:
        return await server.open(nursery)

    adapter = IrcAdapter(server.settings, open_stream=open_stream)
    async with adapter.connect() as link:
        await server.says("one")
        before: MessageEvent = await anext(link.receive())
    async with adapter.connect() as link:
        events = link.receive()
        await server.says("two")
        assert await anext(events) == before
        assert (await anext(events)).text == "two"


async def test_a_refused_password_is_final_and_absent_services_are_not(
    server: IrcServer, connect: Connect
) -> None:
    with pytest.raises(CredentialsRefused, match=r"platforms\.irc\.password"):
        async with connect(password="wrong"):
            pass
    server.caps = tuple(one for one in MODERN if one != "sasl")
    with pytest.raises(LinkLost, match="offers no login"):
        async with connect(password="any"):
            pass


@pytest.mark.parametrize("caps", [MODERN, OLD])
async def test_an_error_belongs_to_its_own_chat(
    server: IrcServer, connect: Connect, caps: tuple[str, ...]
) -> None:
    server.caps = caps
    outcomes: dict[str, str] = {}

    async def send(link: IrcLink, chat: str) -> None:
        try:
            await link.send(to(chat, "hello"))
            outcomes[chat] = "sent"
        except (ChatGone, Refused) as error:
            outcomes[chat] = type(error).__name__

    server.fails("send", ChatGone("left"), chat="2")
    server.fails("send", Refused("moderated"), chat="3")
    async with connect() as link, trio.open_nursery() as nursery:
        for chat in "1234":
            nursery.start_soon(send, link, chat)
    assert outcomes == {"1": "sent", "2": "ChatGone", "3": "Refused", "4": "sent"}


async def test_a_target_that_would_be_another_command_is_refused(connect: Connect) -> None:
    async with connect() as link:
        for target in ("", "a b", "a,b", "a\r\nQUIT", ":a", "$*.simulated", "kim!*@*"):
            with pytest.raises(Refused):
                await link.send(to(target, "hello"))
        with pytest.raises(Refused, match="shows nothing"):
            await link.send(to("42", " \x01\n\n "))


async def test_one_process_has_a_connection(connect: Connect) -> None:
    async with connect():
        with pytest.raises(LinkLost, match="Another process"):
            async with connect():
                pass


@pytest.mark.parametrize("side", ["sent", "received"])
async def test_a_connection_that_is_cut_at_any_byte_is_lost_and_no_line_is_shown_in_part(
    state_home: Path, side: str
) -> None:
    async with open_irc_server() as server:
        adapter = IrcAdapter(server.settings)
        for at in range(1, 900, 13):
            server.cuts_after(**{side: at})
            try:
                async with adapter.connect() as link:
                    await link.send(to("42", f"number {at}."))
                    server.cuts_after()
                    break
            except* (LinkLost, NotSent, OutcomeUnknown):
                pass
            await server.until(lambda: not server.clients)
        else:
            raise AssertionError("It was always cut.")
        texts = server.chat("42").texts
        assert texts[-1] == f"number {at}."
        assert all(text in {f"number {n}." for n in range(1, at + 1)} for text in texts)
        assert len(texts) == len(set(texts))
