"""A whole gateway on Discord: the channels as people see them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import trio

from hermes_platforms.discord.adapter import DiscordAdapter
from hermes_platforms.discord.testing import DiscordServer
from hermes_trio.testing import Script
from tests.platforms.platform_life import Allows, life
from tests.stage import Agent


@pytest.fixture
def agent() -> Agent:
    return Agent()


async def test_an_answer_grows_in_one_message(
    discord: DiscordServer, discord_bot: DiscordAdapter, agent: Agent, tmp_path: Path
) -> None:
    chat = discord.chat("42")
    agent.on("hello", Script().says("**Hello**, you.\n\n- one\n- two", pieces=6, seconds=0.6))
    async with life(tmp_path / "home", discord_bot, agent):
        await discord.says("hello")
        await discord.until(lambda: chat.last == "**Hello**, you.\n\n- one\n- two")
    assert (len(chat.messages), chat.typing_at != []) == (1, True)
    assert sum(one.what == "edit" for one in discord.history) > 1


async def test_a_mention_in_a_thread_is_answered_in_the_thread_and_others_are_not(
    discord: DiscordServer, discord_bot: DiscordAdapter, agent: Agent, tmp_path: Path
) -> None:
    discord.thread("77", of="-100")
    async with life(tmp_path / "home", discord_bot, agent):
        discord.post("not for the bot", chat="-100", chat_type="group", user="42", thread_id="77")
        discord.post("@hermes_bot hello", chat="-100", chat_type="group", user="42", thread_id="77")
        await discord.until(lambda: discord.chat("-100").last == "You said: [person-42] hello")
    assert [one.thread_id for one in discord.chat("-100").messages] == ["77"]


async def test_an_approval_shows_the_exact_command_and_a_press_is_acknowledged(
    discord: DiscordServer, discord_bot: DiscordAdapter, tmp_path: Path
) -> None:
    command, chat = "echo '||`ls`||' && rm -rf **", discord.chat("42")
    async with life(tmp_path / "home", discord_bot, Allows(command)):
        await discord.says("go")
        await discord.until(lambda: any(one.buttons for one in chat.messages))
        assert command in chat.messages[-1].text
        pressed = await discord.presses("✅ Yes")
        await discord.until(lambda: chat.last == "Done.")
    assert (pressed.message_id, 6) in discord.acknowledged
    assert not any(one.buttons for one in chat.messages)


async def test_a_slash_command_is_obeyed_and_acknowledged(
    discord: DiscordServer, discord_bot: DiscordAdapter, agent: Agent, tmp_path: Path
) -> None:
    async with life(tmp_path / "home", discord_bot, agent):
        await discord.until(lambda: bool(discord.identified))
        number = discord.commands_given("whoami")
        await discord.until(lambda: bool(discord.chat("42").texts))
    assert "42" in str(discord.chat("42").last)
    assert (number, 4) in discord.acknowledged


async def test_a_message_between_two_lives_is_answered_once_and_none_comes_again(
    discord: DiscordServer, discord_bot: DiscordAdapter, agent: Agent, tmp_path: Path
) -> None:
    chat = discord.chat("42")
    async with life(tmp_path / "home", discord_bot, agent):
        first = await discord.says("one")
        await discord.until(lambda: chat.last == "You said: one")
    discord.deliver(first)  # Discord dispatches it a second time
    discord.post("two")
    async with life(tmp_path / "home", anew(discord), agent):
        await discord.until(lambda: chat.last == "You said: two")
    assert chat.texts == ["You said: one", "You said: two"]
    assert len(discord.identified) == 1
    assert discord.resumed


async def test_a_night_without_the_gateway_is_read_back_and_answered_in_order(
    discord: DiscordServer, discord_bot: DiscordAdapter, agent: Agent, tmp_path: Path
) -> None:
    chat = discord.chat("42")
    async with life(tmp_path / "home", discord_bot, agent):
        await discord.says("one")
        await discord.until(lambda: chat.last == "You said: one")
    discord.expires()
    discord.post("in the night")
    await discord.listens()
    async with life(tmp_path / "home", anew(discord), agent):
        await discord.until(lambda: chat.last == "You said: in the night")
    assert chat.texts == ["You said: one", "You said: in the night"]
    assert len(discord.identified) == 2


async def test_a_send_with_a_lost_answer_is_repeated_by_its_nonce_and_shown_once(
    discord: DiscordServer, discord_bot: DiscordAdapter, agent: Agent, tmp_path: Path
) -> None:
    discord_bot.traits = replace(discord_bot.traits, edits=False)
    discord.loses_answer()
    async with life(tmp_path / "home", discord_bot, agent):
        await discord.says("hello")
        await discord.until(lambda: sum(one.what == "send" for one in discord.history) == 2)
        await trio.sleep(0.1)
    assert discord.chat("42").texts == ["You said: hello"]


def anew(discord: DiscordServer) -> DiscordAdapter:
    """Return the adapter of the next process."""
    return DiscordAdapter(discord.token, base_url=discord.base_url)
