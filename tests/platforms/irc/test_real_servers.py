"""The adapter on real servers: ngIRCd, which knows nothing but the protocol of 1993, and InspIRCd with the
extensions that the adapter uses. Debian has both."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
import trio

from hermes_platforms.irc.adapter import IrcAdapter
from hermes_platforms.irc.checks import check
from hermes_platforms.irc.irc_link import IrcLink
from hermes_trio import GatewayConfig, PlatformConfig, open_gateway
from hermes_trio.platform import ChatGone, CredentialsRefused, LinkLost, Outgoing
from tests.platforms.irc.irc_servers import RealServer, is_installed, person, real_server


@pytest.fixture(params=["ngircd", "inspircd"])
async def server(request: pytest.FixtureRequest, state_home: Path) -> AsyncIterator[RealServer]:
    if not is_installed(request.param):
        pytest.skip(f"{request.param} is not installed")
    async with real_server(request.param) as running:
        yield running


def to(chat: str, text: str, *, silent: bool = False) -> Outgoing:
    return Outgoing(chat_id=chat, text=text, key=text[:20], silent=silent)


async def joined(link: IrcLink) -> None:
    """Wait until the channel of the test is joined: then a message to it is taken."""
    while not link.connection.joined:  # noqa: ASYNC110
        await trio.sleep(0.02)


async def test_people_are_heard_in_direct_chats_and_where_they_name_us(server: RealServer) -> None:
    async with IrcAdapter(server.settings).connect() as link, person(server, "Kim") as kim:
        events = link.receive()
        await joined(link)
        await kim.says("JOIN", "#ours")
        await kim.says("PRIVMSG", "#ours", "this is for nobody")
        await kim.says("PRIVMSG", "#OURS", "Hermes, what is new?")
        await kim.says("PRIVMSG", "hermes", "\x01ACTION waves\x01")
        await kim.says("PRIVMSG", "hermes", "!stop")
        heard = [await anext(events) for _ in range(3)]
    assert [(one.source.chat_id, one.source.chat_type, one.text) for one in heard] == [
        ("#ours", "group", "what is new?"),
        ("kim", "dm", "* Kim waves"),
        ("kim", "dm", "/stop"),
    ]
    assert (heard[0].source.user_id or "").startswith("Kim!"), "without services nobody has an account"
    assert len({one.message_id for one in heard}) == 3


async def test_each_line_arrives_whole_and_in_order(server: RealServer) -> None:
    text = "**Bold** and a long line: " + "äöü 😀 wörds " * 60 + "\n\n- one\n- two\n\nlast"
    async with IrcAdapter(server.settings).connect() as link, person(server, "Kim") as kim:
        await link.send(to("Kim", text))
        await link.send(to("Kim", "a notice", silent=True))
        lines = [(await kim.until("PRIVMSG")).param(1)]
        while lines[-1] != "last":
            lines.append((await kim.until("PRIVMSG")).param(1))
        notice = await kim.until("NOTICE", where="a notice")
    wanted = text.replace("**Bold**", "\x02Bold\x02").partition("\n")[0]
    assert "".join(lines[:-3]).replace(" ", "") == wanted.replace(" ", ""), "ngIRCd cuts spaces at the end"
    assert lines[-3:] == ["- one", "- two", "last"]
    assert notice.nick == "hermes"


async def test_a_chat_that_does_not_exist_is_gone_and_others_are_not(server: RealServer) -> None:
    async with IrcAdapter(server.settings).connect() as link, person(server, "Kim") as kim:
        with pytest.raises(ChatGone):
            await link.send(to("nobody", "hello"))
        sent = await link.send(to("Kim", "hello"))
        arrived = await kim.until("PRIVMSG")
    assert arrived.param(1) == "hello"
    assert (sent is not None) == link.connection.welcome.labels


async def test_a_nick_in_use_is_replaced_until_it_is_free(server: RealServer) -> None:
    async with person(server, "hermes"), IrcAdapter(server.settings).connect() as link:
        assert link.connection.me.nick == "hermes_"
        await joined(link)


async def test_a_server_that_is_killed_is_a_lost_link(server: RealServer) -> None:
    async with IrcAdapter(server.settings).connect() as link:
        events = link.receive()
        server.process.kill()
        with pytest.raises(LinkLost):
            await anext(events)
    with pytest.raises(LinkLost):
        async with IrcAdapter(server.settings).connect():
            pass


async def test_a_gateway_answers_in_the_channel(server: RealServer, tmp_path: Path) -> None:
    async def answer(turn: object) -> str:
        return "first line\n\nsecond line"

    config = GatewayConfig(platforms={"irc": PlatformConfig(allow_from="all")})
    adapter = IrcAdapter(server.settings)
    async with (
        open_gateway(tmp_path / "home", config, agent=answer, adapters=[adapter]),
        person(server, "Kim") as kim,
    ):
        await kim.says("JOIN", "#ours")
        await kim.until("JOIN", "353", where="hermes")
        await kim.says("PRIVMSG", "#ours", "hermes: hello")
        assert (await kim.until("PRIVMSG")).params == ("#ours", "first line")
        assert (await kim.until("PRIVMSG")).params == ("#ours", "second line")


async def test_doctor_says_what_the_server_can_do_and_disturbs_no_gateway(server: RealServer) -> None:
    config = PlatformConfig(
        allow_from=("kim", "*!lee@*"),
        options={"server": "127.0.0.1", "port": server.port, "tls": False, "password": "none"},
    )
    async with IrcAdapter(server.settings).connect() as link:
        found = await check(config)
        await link.send(to("hermes", "still here"))
    texts = {one.text: one.level for one in found}
    assert texts["127.0.0.1 lets us in"] == "ok"
    assert any("everybody between here and the server" in one for one in texts)
    [mask] = [level for one, level in texts.items() if one.startswith("*!lee@*")]
    assert mask == "problem"
    modern = link.connection.welcome.labels
    assert ("the server confirms each message" in texts) == modern


async def test_a_wrong_password_of_the_server_is_final(state_home: Path) -> None:
    if not is_installed("ngircd"):
        pytest.skip("ngircd is not installed")
    async with real_server("ngircd", password="right") as server:
        async with IrcAdapter(server.settings).connect():
            pass
        wrong = replace(server.settings, server_password="wrong")
        with pytest.raises((CredentialsRefused, LinkLost)):
            async with IrcAdapter(wrong).connect():
                pass
