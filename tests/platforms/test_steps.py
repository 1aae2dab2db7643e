"""A gateway that is killed between any two steps of receiving and sending: no message is lost, none is
answered twice, and none keeps a cursor. The steps are the jobs of the store and the journals and the requests
to the server, before and after each. The kill is SIGKILL.

The quick tests try some of the steps; `make soak` tries every one.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest
import trio

from hermes_platforms.discord.testing import DiscordServer, open_discord
from hermes_platforms.matrix.testing import HomeServer, open_home_server
from hermes_platforms.slack.testing import SlackServer, open_slack
from hermes_platforms.telegram.testing import BotApi, open_bot_api
from hermes_platforms.webhook.testing import Caller, open_caller
from hermes_platforms.xmpp.testing import XmppServer, open_xmpp_server
from tests.platforms.conftest import free_webhook

GATEWAY = Path(__file__).with_name("step_gateway.py")
PATIENCE = 60.0
EVERY = [pytest.param(1, marks=pytest.mark.soak), 41]
REQUESTS = [
    pytest.param(name, every, marks=[pytest.mark.soak] if every == 1 else [])
    for name in ("discord", "matrix", "slack", "telegram", "webhook", "xmpp")
    for every in (1, 41)
    if (name, every) != ("xmpp", 41)  # its process takes twice the time of the others to begin
]


@asynccontextmanager
async def open_reachable_caller() -> AsyncIterator[Caller]:
    """Run a program that calls the webhooks of another process."""
    async with open_caller((await free_webhook()).port) as caller:
        yield caller


Server = BotApi | DiscordServer | HomeServer | SlackServer | XmppServer | Caller
SERVERS: dict[str, Callable[[], AbstractAsyncContextManager[Server]]] = {
    "discord": open_discord,
    "matrix": open_home_server,
    "slack": open_slack,
    "telegram": open_bot_api,
    "webhook": open_reachable_caller,
    "xmpp": open_xmpp_server,
}
CHATS = {"42": "one", "43": "two"}

pytestmark = pytest.mark.skipif(os.name != "posix", reason="SIGKILL is POSIX")


@asynccontextmanager
async def process(home: Path, server: Server, last: int = 0) -> AsyncIterator[subprocess.Popen[bytes]]:
    """Run a gateway in a process of its own. It may end by itself; after the block it has ended."""
    home.mkdir(exist_ok=True)
    running = subprocess.Popen(  # noqa: ASYNC220
        [sys.executable, str(GATEWAY), server.name, str(home), server.base_url, server.token, str(last)],
        env={**os.environ, "XDG_STATE_HOME": str(home / "state"), "PYTHONPATH": os.getcwd()},
    )
    try:
        yield running
    finally:
        running.kill()
        running.wait()


async def until(running: subprocess.Popen[bytes], server: Server, *, may_die: bool = False) -> None:
    """Wait until every message is answered or, with `may_die`, the process has ended."""
    with trio.fail_after(PATIENCE):
        while not is_answered(server):  # noqa: ASYNC110
            if running.poll() is not None:
                assert may_die, "The gateway has ended by itself."
                return
            await trio.sleep(0.02)


def say(server: Server) -> None:
    for chat, text in CHATS.items():
        server.post(text, chat=chat)


def is_answered(server: Server) -> bool:
    """Return True if every message is answered, and no message has a cursor."""
    texts = [text for chat in CHATS for text in server.chat(chat).texts]
    whole = all(f"Answer to {text}." in server.chat(chat).texts for chat, text in CHATS.items())
    return whole and not server.waiting and not any(text.endswith("▉") for text in texts)


def assert_answered_once(server: Server, where: object) -> None:
    assert not server.waiting, where
    for chat, said in CHATS.items():
        texts = server.chat(chat).texts
        assert texts.count(f"Answer to {said}.") == 1, (where, texts)
        # A cut answer is marked as interrupted; an answer without text may have left its placeholder.
        other = [
            text for text in texts if text != f"Answer to {said}." and not text.endswith("(interrupted)")
        ]
        assert other in ([], ["…"]), (where, texts)


async def killed_at_step(platform: str, home: Path, step: int) -> bool:
    """Send two messages, kill the gateway at a step, and start it again. Return True if the step was
    reached."""
    async with SERVERS[platform]() as server:
        say(server)
        async with process(home, server, step) as running:
            await until(running, server, may_die=True)
            was_killed = running.poll() is not None
        async with process(home, server) as running:
            await until(running, server)
            await trio.sleep(0.3)  # time for a repeated message to arrive
        assert_answered_once(server, f"killed at step {step}")
    return was_killed


async def number_of_steps(platform: str, home: Path) -> int:
    async with SERVERS[platform]() as server:
        say(server)
        async with process(home, server) as running:
            await until(running, server)
            await trio.sleep(0.5)
    return int((home / "steps").read_text())


@pytest.mark.timeout(3000)
@pytest.mark.parametrize("platform", SERVERS)
@pytest.mark.parametrize("every", EVERY)
async def test_every_message_is_answered_once_when_killed_at_a_step_of_the_store(
    tmp_path: Path, platform: str, every: int
) -> None:
    steps = await number_of_steps(platform, tmp_path / "whole")
    kills = 0
    for step in range(1, steps, every):
        kills += await killed_at_step(platform, tmp_path / f"step-{step}", step)
    assert kills >= (steps // every) * 0.8


@pytest.mark.timeout(3000)
@pytest.mark.parametrize(("platform", "every"), REQUESTS)
@pytest.mark.parametrize("moment", ["before", "after"])
async def test_every_message_is_answered_once_when_killed_at_a_request(
    tmp_path: Path, platform: str, moment: str, every: int
) -> None:
    for request in range(1, 60, max(1, every // 4)):
        async with SERVERS[platform]() as server:
            say(server)
            async with process(tmp_path / f"{moment}-{request}", server) as running:

                def kill(running: subprocess.Popen[bytes] = running) -> None:
                    running.kill()
                    running.wait()

                server.at_request(request, kill, done=moment == "after")
                await until(running, server, may_die=True)
                reached = len(server.asked) >= request
            async with process(tmp_path / f"{moment}-{request}", server) as running:
                await until(running, server)
                await trio.sleep(0.3)
            assert_answered_once(server, f"killed {moment} request {request}")
        if not reached:  # everything was answered with fewer requests
            return
    raise AssertionError("The gateway never finished.")
