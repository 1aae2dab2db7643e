"""Findings of `doctor discord`, and values that its configuration refuses. They begin no session."""

from __future__ import annotations

import pytest

from hermes_platforms.discord import from_config
from hermes_platforms.discord.checks import check
from hermes_platforms.discord.setup import QUESTIONS
from hermes_platforms.discord.testing import DiscordServer
from hermes_trio import ConfigInvalid, PlatformConfig

TOKEN = "900000000000000001.GsimuL.of-nobody-0000000000000000000"


def bot_of(discord: DiscordServer, **keys: object) -> PlatformConfig:
    return PlatformConfig(token=discord.token, base_url=discord.base_url, **keys)  # type: ignore[arg-type]


async def test_doctor_leads_from_the_token_to_the_invitation(discord: DiscordServer) -> None:
    found = await check(bot_of(discord, allow_from=("42",)))
    assert [one.level for one in found] == ["ok"] * len(found)
    texts = " ".join(one.text for one in found)
    assert "the bot is hermes_bot" in texts
    assert f"https://discord.com/oauth2/authorize?client_id={discord.bot_id}" in texts
    assert "answers messages that mention it" in texts
    assert discord.identified == []


async def test_doctor_explains_the_message_content_intent(discord: DiscordServer) -> None:
    discord.allows_content = False
    [problem] = [one for one in await check(bot_of(discord, require_mention=False)) if one.level == "problem"]
    assert "may not read all messages" in problem.text
    assert "Message Content Intent" in problem.remedy
    options = {"message_content": False}
    found = await check(bot_of(discord, require_mention=False, allow_from=("42",), options=options))
    assert [one.level for one in found].count("warning") == 1


async def test_doctor_says_what_to_do_about_a_token_that_discord_does_not_know(
    discord: DiscordServer,
) -> None:
    discord.refuses()
    [problem] = await check(bot_of(discord))
    assert (problem.level, "Reset Token" in problem.remedy) == ("problem", True)


async def test_doctor_warns_before_discord_takes_the_token_away(discord: DiscordServer) -> None:
    discord.sessions_left = 7
    assert "Discord allows 7 more sessions today" in [one.text for one in await check(bot_of(discord))]


@pytest.mark.parametrize(
    ("keys", "key"),
    [
        ({}, "token"),
        ({"token": "123456:telegram"}, "token"),
        ({"token": TOKEN, "base_url": "ftp://x"}, "base_url"),
        ({"token": TOKEN, "allow_from": ("ann",)}, "allow_from"),
        ({"token": TOKEN, "options": {"reactions": "often"}}, "reactions"),
    ],
)
def test_a_value_that_cannot_work_is_refused_and_a_token_is_not_shown(
    keys: dict[str, object], key: str
) -> None:
    with pytest.raises(ConfigInvalid) as refused:
        from_config(PlatformConfig(**keys))  # type: ignore[arg-type]
    assert f"platforms.discord.{key}" in str(refused.value)
    assert str(keys.get("token", "no token")) not in str(refused.value)


def test_setup_takes_a_token_with_its_prefix_and_refuses_another_text() -> None:
    [question] = QUESTIONS
    assert question.check(f" Bot {TOKEN} ") == TOKEN
    with pytest.raises(ValueError, match="three parts"):
        question.check("hunter2")
