"""Findings of `doctor slack`, and values that its configuration refuses. They open no connection."""

from __future__ import annotations

import json
from urllib.parse import parse_qs, urlsplit

import pytest

from hermes_platforms.slack import from_config
from hermes_platforms.slack.checks import check
from hermes_platforms.slack.manifest import MANIFEST, link
from hermes_platforms.slack.setup import QUESTIONS
from hermes_platforms.slack.testing import SlackServer
from hermes_trio import ConfigInvalid, PlatformConfig

BOT, APP = "xoxb-1234567890-nobody", "xapp-1-1234567890-nobody"


def app_of(slack: SlackServer, **keys: object) -> PlatformConfig:
    options = {"app_token": slack.app_token}
    return PlatformConfig(token=slack.token, base_url=slack.base_url, options=options, **keys)  # type: ignore[arg-type]


async def test_doctor_leads_from_the_tokens_to_the_first_answer(slack: SlackServer) -> None:
    found = await check(app_of(slack, allow_from=("U42",)))
    assert [one.level for one in found] == ["ok"] * len(found)
    texts = " ".join(one.text for one in found)
    assert "the bot is hermes_bot in Simulated" in texts
    assert "Slack offers connections" in texts
    assert slack.opened == 0


async def test_doctor_names_the_scopes_that_are_missing(slack: SlackServer) -> None:
    slack.scopes -= {"files:read", "im:history"}
    [warning] = [one for one in await check(app_of(slack, allow_from=("U42",))) if one.level == "warning"]
    assert "files:read, im:history" in warning.text
    assert "install the app again" in warning.remedy


async def test_doctor_says_what_to_do_about_tokens_that_slack_refuses(slack: SlackServer) -> None:
    wrong = PlatformConfig(token=slack.token, base_url=slack.base_url, options={"app_token": APP})
    [problem] = [one for one in await check(wrong) if one.level == "problem"]
    assert "connections:write" in problem.remedy
    slack.refuses()
    [problem] = await check(app_of(slack))
    assert (problem.level, "Install App" in problem.remedy) == ("problem", True)


@pytest.mark.parametrize(
    ("keys", "options", "key"),
    [
        ({}, {"app_token": APP}, "token"),
        ({"token": BOT}, {}, "app_token"),
        ({"token": APP}, {"app_token": APP}, "token"),
        ({"token": BOT}, {"app_token": BOT}, "app_token"),
        ({"token": BOT, "base_url": "ftp://x"}, {"app_token": APP}, "base_url"),
        ({"token": BOT, "allow_from": ("ann",)}, {"app_token": APP}, "allow_from"),
        ({"token": BOT}, {"app_token": APP, "reply_in_thread": "no"}, "reply_in_thread"),
    ],
)
def test_a_value_that_cannot_work_is_refused_and_no_token_is_shown(
    keys: dict[str, object], options: dict[str, object], key: str
) -> None:
    with pytest.raises(ConfigInvalid) as refused:
        from_config(PlatformConfig(options=options, **keys))  # type: ignore[arg-type]
    assert f"platforms.slack.{key}:" in str(refused.value)
    assert "nobody" not in str(refused.value)


def test_setup_makes_the_app_by_a_link_and_tells_its_two_tokens_apart() -> None:
    app_token, token = QUESTIONS
    assert app_token.check(f" {APP} ") == APP
    assert token.check(BOT) == BOT
    for question, other in ((app_token, BOT), (token, APP)):
        with pytest.raises(ValueError, match="begins with"):
            question.check(other)
    asked = parse_qs(urlsplit(link()).query)
    assert json.loads(asked["manifest_json"][0]) == MANIFEST
    assert link() in app_token.help
