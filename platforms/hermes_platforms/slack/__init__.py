"""Slack: direct messages, channels, threads, by Socket Mode.

adapter          connects an app
slack_link       sends and receives
incoming         events of people, acknowledged once they are stored
socket_mode      the connections on which Slack delivers
people           names of people
calls            calls of the Web API, with the outcomes of the contract
api              one call over HTTP, and its outcome
formatting       Markdown to mrkdwn                                   pure
exact_blocks     texts that are shown exactly                         pure
parsing          what Slack delivers to events                        pure
payload          the parts of payloads that we read                   pure
manifest         the app that a workspace needs                       pure
setup            questions of `hermes-trio setup slack`
checks           checks of `hermes-trio doctor slack`
trial            a trial without an app
testing          a Slack server for tests
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from hermes_trio import ConfigInvalid, PlatformConfig
from hermes_trio.platform import install_command

from ..options import check_base_url, check_people, switch

if TYPE_CHECKING:
    from .adapter import SlackAdapter

BOT_TOKEN = re.compile(r"xoxb-[\w-]{10,200}", re.ASCII)
APP_TOKEN = re.compile(r"xapp-[\w-]{10,200}", re.ASCII)
ID = re.compile(r"[UW][A-Z0-9]{2,30}", re.ASCII)


def from_config(platform: PlatformConfig) -> SlackAdapter:
    """Return the adapter for `platforms.slack` of a configuration."""
    app_token = app_token_of(platform)
    ask = "Run `hermes-trio setup slack`, which tells where it is."
    for key, token, form, prefix in (
        ("token", platform.token or "", BOT_TOKEN, "xoxb-"),
        ("app_token", app_token, APP_TOKEN, "xapp-"),
    ):
        if not token:
            raise ConfigInvalid(f"platforms.slack.{key}", "the token is missing", ask)
        if not form.fullmatch(token):  # not shown: it may be a real token with a typing error
            raise ConfigInvalid(f"platforms.slack.{key}", f"it is no token that begins with {prefix}", ask)
    check_base_url("slack", platform)
    # A name is no id: its owner can change it, and somebody else can take it.
    check_people(
        "slack",
        platform,
        ID.fullmatch,
        "is no id of a member, which begins with U or W; a name can change its owner",
        "In Slack, open the profile of the person, press the three dots, Copy member ID.",
    )
    try:
        from .adapter import SlackAdapter
        from .slack_link import TRAITS
    except ModuleNotFoundError as error:
        if error.name not in ("markdown_it", "websockets"):
            raise
        remedy = f"Run `{install_command('slack')}`."
        raise ConfigInvalid("platforms.slack", f"it needs {error.name}", remedy) from error
    return SlackAdapter(
        platform.token or "",
        app_token,
        base_url=platform.base_url,
        require_mention=platform.require_mention,
        reply_in_thread=switch("slack", platform, "reply_in_thread", default=True),
        traits=replace(TRAITS, reacts=switch("slack", platform, "reactions", default=False)),
    )


def app_token_of(platform: PlatformConfig) -> str:
    """Return the app-level token of a configuration; empty if there is none."""
    return str(platform.options.get("app_token") or "")
