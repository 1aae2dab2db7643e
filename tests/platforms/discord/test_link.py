"""A link to a Discord server: sessions that break, expire and are refused, and rate limits."""

from __future__ import annotations

import pytest
import trio

from hermes_platforms.discord.adapter import DiscordAdapter
from hermes_platforms.discord.gateway import RefusedByGateway
from hermes_platforms.discord.testing import DiscordServer
from hermes_trio.platform import (
    CredentialsRefused,
    FloodWait,
    HeldMemory,
    Link,
    LinkLost,
    MessageEvent,
    OutcomeUnknown,
    Outgoing,
    Refused,
)
from hermes_trio.testing.laws.receiving import receiving
from hermes_trio.testing.laws.subject import message
from tests.platforms.platform_life import heard_while, until_heard


async def test_a_connection_that_breaks_is_resumed_within_the_link(
    discord: DiscordServer, discord_bot: DiscordAdapter
) -> None:
    def breaks() -> None:
        discord.drop()
        discord.post("after")

    assert await heard_while(discord_bot, breaks, discord, "after") == ["before", "after"]
    assert len(discord.identified) == 1
    assert discord.resumed


@pytest.mark.parametrize("sent", [1, 60, 200, 600])
async def test_a_connection_that_breaks_again_while_it_resumes_loses_nothing(
    discord: DiscordServer, discord_bot: DiscordAdapter, sent: int
) -> None:
    def breaks() -> None:
        discord.drop()
        for number in range(5):
            discord.post(f"number {number}")
        discord.cuts_after(sent=sent)

    expected = ["before", *(f"number {number}" for number in range(5))]
    assert await heard_while(discord_bot, breaks, discord, "number 4") == expected


@pytest.mark.parametrize("code", [1000, 1001, 4000, 4007, 4008, 4009])
async def test_a_connection_that_discord_closes_is_replaced(
    discord: DiscordServer, discord_bot: DiscordAdapter, code: int
) -> None:
    heard: list[MessageEvent] = []
    async with discord_bot.connect() as link, trio.open_nursery() as nursery:
        nursery.start_soon(receiving, link, heard)
        await discord.says("before")
        before = len(discord.identified) + len(discord.resumed)
        await discord.close(code)
        await discord.until(lambda: len(discord.identified) + len(discord.resumed) > before)
        discord.post("after")
        await until_heard(heard, "after")
        nursery.cancel_scope.cancel()
    assert len(discord.identified) == (1 if code in (4000, 4008) else 2)


async def test_what_a_forgotten_session_missed_is_read_from_the_channels_in_order(
    discord: DiscordServer, discord_bot: DiscordAdapter
) -> None:
    def expires() -> None:
        discord.post("stays in the channel")
        discord.post("too")
        discord.expires()

    heard = await heard_while(discord_bot, expires, discord, "too")
    assert heard == ["before", "stays in the channel", "too"]
    assert len(discord.identified) == 2


async def test_the_next_process_reads_what_was_missed_after_a_long_outage(
    discord: DiscordServer, discord_bot: DiscordAdapter
) -> None:
    memory, heard = HeldMemory(), list[MessageEvent]()
    async with discord_bot.connect(memory) as link, trio.open_nursery() as nursery:
        nursery.start_soon(receiving, link, heard)
        await discord.says("before")
        nursery.cancel_scope.cancel()
    discord.expires()
    discord.post("in the night")
    await discord.listens()
    assert discord.token not in str(memory.text)
    again = DiscordAdapter(discord.token, base_url=discord.base_url)
    async with again.connect(memory) as link:
        events = link.receive()
        assert (await anext(events)).text == "in the night"
        discord.post("in the morning")
        assert (await anext(events)).text == "in the morning"


async def test_an_unanswered_heartbeat_replaces_the_connection(
    discord: DiscordServer, discord_bot: DiscordAdapter
) -> None:
    discord.answers_heartbeats = False

    def answers_again() -> None:
        discord.post("after")

    async with discord_bot.connect():
        await discord.until(lambda: len(discord.resumed) >= 1)
        discord.answers_heartbeats = True
    assert await heard_while(discord_bot, answers_again, discord, "after") == ["before", "after"]


async def test_a_token_that_is_refused_later_ends_the_link_for_good(
    discord: DiscordServer, discord_bot: DiscordAdapter
) -> None:
    async with discord_bot.connect() as link:
        discord.refuses()
        discord.drop()
        with pytest.raises(CredentialsRefused):
            await anext(link.receive())
    with pytest.raises(CredentialsRefused):
        async with discord_bot.connect():
            pass


async def test_an_intent_that_is_switched_off_is_refused_with_the_remedy(discord: DiscordServer) -> None:
    bot = DiscordAdapter(discord.token, base_url=discord.base_url, message_content=True)
    discord.allows_content = False
    with pytest.raises(RefusedByGateway, match=r"Enable the Message Content Intent on the Bot page"):
        async with bot.connect():
            pass
    discord.allows_content = True
    async with bot.connect():
        assert discord.identified == [1 | 512 | 4096 | 32768]


async def test_no_session_is_begun_when_discord_allows_none(
    discord: DiscordServer, discord_bot: DiscordAdapter
) -> None:
    discord.sessions_left = 0
    with pytest.raises(LinkLost, match="allows no new session"):
        async with discord_bot.connect():
            pass
    assert discord.identified == []


async def test_a_bucket_is_waited_for_and_nothing_is_refused(
    discord: DiscordServer, discord_bot: DiscordAdapter
) -> None:
    discord.limits["send"] = (2, 0.4)
    async with discord_bot.connect() as link:
        for number in range(5):
            await link.send(message(f"number {number}", key=f"key-{number}"))
    assert discord.chat("42").texts == [f"number {number}" for number in range(5)]
    assert discord.refusals == 0


async def test_a_long_limit_is_told_as_a_flood_wait_without_a_request(
    discord: DiscordServer, discord_bot: DiscordAdapter
) -> None:
    discord.limits["send"] = (1, 60.0)
    async with discord_bot.connect() as link:
        await link.send(message("one", key="1"))
        before = len(discord.asked)
        with pytest.raises(FloodWait) as flood:
            await link.send(message("two", key="2"))
        assert 50 < flood.value.seconds <= 60
        assert len(discord.asked) == before
        await link.send(message("elsewhere", chat="43", key="3"))


async def test_a_message_in_a_thread_is_edited_and_deleted_where_it_is(
    discord: DiscordServer, discord_bot: DiscordAdapter
) -> None:
    discord.thread("77", of="-100")
    async with discord_bot.connect() as link:
        sent = await link.send(Outgoing(chat_id="-100", text="draft", key="1", thread_id="77"))
        assert sent is not None
        assert sent.startswith("77/")
        await link.edit("-100", sent, "done")
        assert [(one.text, one.thread_id) for one in discord.chat("-100").messages] == [("done", "77")]
        await link.delete("-100", sent)
    assert discord.chat("-100").messages == []


async def test_a_send_that_is_cut_at_any_byte_and_repeated_with_its_key_is_shown_once(
    discord: DiscordServer, discord_bot: DiscordAdapter
) -> None:
    async def send_until_it_arrives(link: Link, key: str) -> None:
        while True:
            try:
                await link.send(message(key, key=key))
                return
            except OutcomeUnknown:
                continue

    async with discord_bot.connect() as link:
        for count in range(0, 400, 16):
            discord.cuts_after(sent=count)
            await send_until_it_arrives(link, f"key-{count}")
    assert discord.chat("42").texts == [f"key-{count}" for count in range(0, 400, 16)]


async def test_a_file_is_fetched_from_discord_only(
    discord: DiscordServer, discord_bot: DiscordAdapter
) -> None:
    discord.posts["42"] = [{"id": "7", "attachments": [{"id": "1", "url": "http://127.0.0.1:1/secret"}]}]
    async with discord_bot.connect() as link:
        with pytest.raises(Refused, match="at no address of Discord"):
            await link.fetch("42/7/1", 100)


async def test_slash_commands_are_registered_once(
    discord: DiscordServer, discord_bot: DiscordAdapter
) -> None:
    for _ in range(2):
        async with discord_bot.connect():
            pass
    assert {"help", "status", "stop"} <= {one["name"] for one in discord.commands}
    assert sum(call.method == "PUT" for call in discord.asked) == 1
