"""Checks of `hermes-trio doctor discord`: the steps from a token to the first answer. Nothing is changed at
Discord, and no session of its gateway is begun: their number is limited for a day."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from hermes_trio import PlatformConfig
from hermes_trio.platform import Finding

from . import from_config, reads_content
from .api import BASE_URL, Denied, NoAnswer, NotReached, open_api

WITHIN = 15.0
SETUP = "hermes-trio setup discord"
FEW_SESSIONS = 50
PORTAL = "https://discord.com/developers/applications"

CONTENT = (1 << 18) | (1 << 19)
"""Flags of an application that may read the content of messages: a verified one, and any other one."""
PERMISSIONS = (1 << 6) | (1 << 10) | (1 << 11) | (1 << 15) | (1 << 16) | (1 << 38)
"""Add reactions, view channels, send messages, attach files, read the history, send messages in threads."""


async def check(platform: PlatformConfig) -> list[Finding]:
    """Check the steps in order, and stop at the first one without which the later ones cannot work."""
    from_config(platform)  # raises the mistakes of the configuration
    assert platform.token is not None  # noqa: S101 - without one it is refused above
    async with open_api(platform.token, platform.base_url or BASE_URL) as api:
        try:
            me = await api.call("GET", "/users/@me", within=WITHIN)
            application = await api.call("GET", "/applications/@me", within=WITHIN)
            guilds = await api.call("GET", "/users/@me/guilds", within=WITHIN)
            gateway = await api.call("GET", "/gateway/bot", within=WITHIN)
        except (Denied, NotReached, NoAnswer) as error:
            return [_unknown_to_discord(error, platform)]
    name, bot_id = str(me.get("username", "")), str(application.get("id", me.get("id")))
    return [
        Finding("ok", f"Discord knows the token: the bot is {name}"),
        *_sessions(gateway),
        *_content(application, platform),
        *_servers(guilds, bot_id),
        *_who_may(platform, name),
    ]


def _unknown_to_discord(error: Denied | NotReached | NoAnswer, platform: PlatformConfig) -> Finding:
    if isinstance(error, Denied) and error.status == 401:
        remedy = f"At {PORTAL}, on the page Bot, press Reset Token. Then run `{SETUP}`."
        return Finding("problem", "Discord does not know this token", remedy)
    where = platform.base_url or BASE_URL
    remedy = f"See that {where} can be reached from here; HTTPS_PROXY names a proxy to go through."
    return Finding("problem", f"Discord cannot be reached ({error})", remedy)


def _sessions(gateway: Mapping[str, Any]) -> Iterator[Finding]:
    limit = gateway.get("session_start_limit", {})
    remaining = limit.get("remaining")
    if isinstance(remaining, int) and remaining < FEW_SESSIONS:
        remedy = "See in the log why the connection is lost again and again; a restart costs one session."
        yield Finding("warning", f"Discord allows {remaining} more sessions today", remedy)


def _content(application: Mapping[str, Any], platform: PlatformConfig) -> Iterator[Finding]:
    """Explain what the bot may read. Messages that mention it, and direct ones, need no intent."""
    may, wants = bool(application.get("flags", 0) & CONTENT), reads_content(platform)
    if wants and not may:
        remedy = (
            f"At {PORTAL}, on the page Bot, switch on Message Content Intent; or set require_mention: true "
            "and message_content: false."
        )
        yield Finding("problem", "Discord will refuse the bot: it may not read all messages", remedy)
    elif wants:
        yield Finding("ok", "the bot may read all messages of its channels")
    elif platform.require_mention:
        yield Finding("ok", "in servers the bot answers messages that mention it or reply to it")
    else:
        remedy = f"Switch on Message Content Intent at {PORTAL}, and leave message_content out."
        yield Finding(
            "warning", "without the Message Content Intent, messages without a mention are empty", remedy
        )


def _servers(guilds: Any, bot_id: str) -> Iterator[Finding]:
    invite = (
        f"https://discord.com/oauth2/authorize?client_id={bot_id}&scope=bot+applications.commands"
        f"&permissions={PERMISSIONS}"
    )
    if isinstance(guilds, list) and guilds:
        yield Finding("ok", f"the bot is in {len(guilds)} servers; to invite it to another one: {invite}")
    else:
        text = "the bot is in no server, so nobody can find it"
        yield Finding("warning", text, f"Invite it to a server that you manage: {invite}")


def _who_may(platform: PlatformConfig, name: str) -> Iterator[Finding]:
    if platform.allow_from == "all":
        yield Finding("warning", "everybody who meets the bot may talk to it", f"Run `{SETUP} --allow IDS`.")
    elif platform.allow_from:
        count = len(platform.allow_from)
        yield Finding("ok", f"{count} people may talk to the bot: {', '.join(platform.allow_from)}")
    else:
        text = "a person who writes to the bot gets a code; `hermes-trio pairing approve CODE` gives access"
        yield Finding("ok", text)
    yield Finding("ok", f"for the first answer, run `hermes-trio run` and write to {name}, or mention it")
