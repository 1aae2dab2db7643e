"""Fixtures of the platforms: the adapter under test, and the stage with its people."""

from __future__ import annotations

import os
import random
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import trio

from hermes_platforms.discord.adapter import DiscordAdapter
from hermes_platforms.discord.discord_link import TRAITS as DISCORD_TRAITS
from hermes_platforms.discord.testing import DiscordServer, open_discord
from hermes_platforms.email.adapter import EmailAdapter
from hermes_platforms.email.testing import open_mail_server
from hermes_platforms.irc.adapter import IrcAdapter
from hermes_platforms.irc.testing import MODERN, OLD, open_irc_server
from hermes_platforms.matrix.adapter import MatrixAdapter
from hermes_platforms.matrix.testing import open_home_server
from hermes_platforms.slack.adapter import SlackAdapter
from hermes_platforms.slack.slack_link import TRAITS as SLACK_TRAITS
from hermes_platforms.slack.testing import SlackServer, open_slack
from hermes_platforms.telegram.adapter import TelegramAdapter
from hermes_platforms.telegram.telegram_link import TRAITS
from hermes_platforms.telegram.testing import BotApi, open_bot_api
from hermes_platforms.telegram.webhook import Webhook
from hermes_platforms.webhook.testing import open_caller
from hermes_platforms.xmpp.adapter import XmppAdapter
from hermes_platforms.xmpp.testing import open_xmpp_server
from hermes_trio.platform import FOR_EVER, Adapter, Traits
from hermes_trio.testing import LoopbackAdapter, MemoryPlatform, open_loopback
from hermes_trio.testing.laws.subject import Platform

SECRET = "simulated-secret-of-nobody"
ALL_TRAITS = Traits(
    edits=True,
    typing=True,
    deletes=True,
    buttons=True,
    threads=True,
    sends_files=True,
    takes_keys_for=FOR_EVER,
    finds=True,
    drafts=True,
    reacts=True,
)
NEEDS_TRIO_ASYNCIO = "HERMES_TEST_TRIO_ASYNCIO"
"""The variable of the process that may load trio-asyncio, which changes asyncio for a whole process."""
PATIENCE = 45.0
"""Seconds for a test on the real clock, on a busy machine."""


@pytest.fixture
def state_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Directory for the locks of this machine's processes, for one test."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state"


@pytest.fixture
async def telegram(state_home: Path) -> AsyncIterator[BotApi]:
    async with open_bot_api() as server:
        with trio.fail_after(PATIENCE):
            yield server


@pytest.fixture
def bot(telegram: BotApi) -> TelegramAdapter:
    return TelegramAdapter(telegram.token, base_url=telegram.base_url)


@pytest.fixture(
    params=[
        "memory",
        "loopback",
        "telegram",
        "webhook",
        "discord",
        "matrix",
        "slack",
        "email",
        "irc",
        "irc-old",
        "webhooks",
        # In a process of its own, of tests/platforms/xmpp/test_own_process.py.
        *(["xmpp"] if NEEDS_TRIO_ASYNCIO in os.environ else []),
    ]
)
async def platform(request: pytest.FixtureRequest, state_home: Path) -> AsyncIterator[Platform]:
    anew: Callable[[], Adapter]
    with trio.fail_after(PATIENCE):
        if request.param == "memory":
            memory = MemoryPlatform(traits=replace(ALL_TRAITS, fetches=True))
            yield Platform(memory, memory)
        elif request.param == "loopback":
            async with open_loopback(traits=ALL_TRAITS) as server:
                anew = partial(LoopbackAdapter, server.port, traits=ALL_TRAITS)
                yield Platform(anew(), server, anew)
        elif request.param == "matrix":
            async with open_home_server() as matrix:
                anew = partial(MatrixAdapter, matrix.token, base_url=matrix.base_url, reacts=True)
                yield Platform(anew(), matrix, anew)
        elif request.param == "discord":
            async with open_discord() as discord:
                discord.thread("5", of="-100")
                discord.thread("6", of="-100")
                traits = replace(DISCORD_TRAITS, reacts=True)
                anew = partial(DiscordAdapter, discord.token, base_url=discord.base_url, traits=traits)
                yield Platform(anew(), discord, anew)
        elif request.param == "slack":
            async with open_slack() as slack:
                anew = partial(
                    SlackAdapter,
                    slack.token,
                    slack.app_token,
                    base_url=slack.base_url,
                    traits=replace(SLACK_TRAITS, reacts=True),
                )
                yield Platform(anew(), slack, anew)
        elif request.param == "email":
            async with open_mail_server() as mail:
                anew = partial(EmailAdapter, mail.settings)
                yield Platform(anew(), mail, anew)
        elif request.param == "webhooks":
            async with open_caller() as caller:
                yield Platform(caller.adapter(), caller, caller.adapter)
        elif request.param == "xmpp":
            async with open_xmpp_server() as xmpp:
                anew = partial(XmppAdapter, xmpp.settings)
                yield Platform(anew(), xmpp, anew)
        elif request.param.startswith("irc"):
            async with open_irc_server(caps=MODERN if request.param == "irc" else OLD) as network:
                anew = partial(IrcAdapter, network.settings)
                yield Platform(anew(), network, anew)
        else:
            hook = await free_webhook() if request.param == "webhook" else None
            async with open_bot_api() as api:
                traits = replace(TRAITS, reacts=True)
                anew = partial(TelegramAdapter, api.token, base_url=api.base_url, webhook=hook, traits=traits)
                yield Platform(anew(), api, anew)


async def free_webhook() -> Webhook:
    """Return a webhook on a free port of this machine. The port is outside the range of ephemeral ports, so
    no outgoing connection takes it before the adapter listens there."""
    for _ in range(100):
        port = random.SystemRandom().randrange(20_000, 32_000)
        try:
            [listener] = await trio.open_tcp_listeners(port, host="127.0.0.1")
        except OSError:
            continue
        await listener.aclose()
        return Webhook(f"http://127.0.0.1:{port}/telegram", SECRET, "127.0.0.1", port, "/telegram")
    raise AssertionError("There is no free port.")


@pytest.fixture
async def discord(state_home: Path) -> AsyncIterator[DiscordServer]:
    async with open_discord() as server:
        with trio.fail_after(PATIENCE):
            yield server


@pytest.fixture
def discord_bot(discord: DiscordServer) -> DiscordAdapter:
    return DiscordAdapter(discord.token, base_url=discord.base_url)


@pytest.fixture
async def slack(state_home: Path) -> AsyncIterator[SlackServer]:
    async with open_slack() as server:
        with trio.fail_after(PATIENCE):
            yield server


@pytest.fixture
def slack_app(slack: SlackServer) -> SlackAdapter:
    return SlackAdapter(slack.token, slack.app_token, base_url=slack.base_url)
