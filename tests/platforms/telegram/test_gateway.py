"""A whole gateway on Telegram: what people in a chat see of it, also when it is killed again and again."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

from hermes_platforms.telegram.adapter import TelegramAdapter
from hermes_trio.config import GatewayConfig, PlatformConfig, StreamingConfig
from hermes_trio.gateway.serve import serve
from hermes_trio.platform import ChatGone, FloodWait
from hermes_trio.testing import BotApi, Script
from tests.kill import accounts
from tests.stage import Agent, no_guard

GATEWAY = Path(__file__).parents[2] / "kill" / "gateway.py"
REPEATED = "♻ Possibly a repeat:"
CONFIG = """\
agent: {{stuck_after: 1000000}}
display: {{busy_input_mode: queue}}
streaming: {{edit_interval: 0.05}}
platforms:
  telegram:
    allow_from: all
    token: "{token}"
    base_url: {base_url}
"""


@pytest.fixture
def agent() -> Agent:
    return Agent()


@asynccontextmanager
async def life(home: Path, bot: TelegramAdapter, agent: Agent) -> AsyncIterator[None]:
    """One life of a gateway that has only this bot."""
    config = GatewayConfig(
        platforms={"telegram": PlatformConfig(allow_from="all")},
        streaming=StreamingConfig(edit_interval=0.05),
    )
    async with trio.open_nursery() as nursery:

        async def run(task_status: trio.TaskStatus[object]) -> None:
            await serve(home, config, agent=agent, adapters=[bot], guarded=no_guard, task_status=task_status)

        gateway = await nursery.start(run)
        yield
        gateway.stop(grace=0, asked_by="the story")


async def test_an_answer_grows_in_one_message_and_ends_as_it_was_meant(
    telegram: BotApi, bot: TelegramAdapter, agent: Agent, tmp_path: Path
) -> None:
    chat = telegram.chat("42")
    agent.on("hello", Script().says("**Hello**, `you`.\n\n- one\n- two", pieces=6, seconds=0.6))
    async with life(tmp_path / "home", bot, agent):
        await telegram.says("hello")
        await telegram.until(lambda: chat.last == "Hello, you.\n\n• one\n• two")
        edits = sum(one.what == "edit" for one in telegram.history)
        assert (len(chat.messages), chat.typing_at != [], edits > 1) == (1, True, True)
        assert {one.kind for one in telegram.entities[chat.messages[0].message_id]} == {"bold", "code"}


async def test_what_was_said_meanwhile_is_answered_by_the_next_life_and_only_once(
    telegram: BotApi, bot: TelegramAdapter, agent: Agent, tmp_path: Path
) -> None:
    chat = telegram.chat("42")
    async with life(tmp_path / "home", bot, agent):
        first = await telegram.says("one")
        await telegram.until(lambda: chat.last == "You said: one")
    telegram.deliver(first)  # Telegram tells it a second time
    telegram.post("two")
    async with life(tmp_path / "home", bot, agent):
        await telegram.until(lambda: chat.last == "You said: two")
    assert chat.texts == ["You said: one", "You said: two"]


async def test_a_flood_is_waited_out_and_the_answer_comes_once(
    telegram: BotApi, bot: TelegramAdapter, agent: Agent, tmp_path: Path
) -> None:
    telegram.fails("send", FloodWait(1), times=2)
    async with life(tmp_path / "home", bot, agent):
        await telegram.says("hello")
        await telegram.until(lambda: telegram.chat("42").texts == ["You said: hello"])


async def test_whoever_has_blocked_the_bot_is_left_alone_until_he_is_back(
    telegram: BotApi, bot: TelegramAdapter, agent: Agent, tmp_path: Path
) -> None:
    chat = telegram.chat("42")
    telegram.fails("send", ChatGone("blocked"), times=1000, chat="42")
    async with life(tmp_path / "home", bot, agent):
        await telegram.says("hello")
        await telegram.until(lambda: any(one.what == "send" for one in telegram.history))
        telegram._troubles.clear()
        await telegram.says("/status")
        await telegram.until(lambda: bool(chat.texts))
        assert all("You said: hello" not in text for text in chat.texts)


async def test_an_answer_that_may_have_arrived_says_so_when_it_comes_again(
    telegram: BotApi, bot: TelegramAdapter, agent: Agent, tmp_path: Path
) -> None:
    chat = telegram.chat("42")
    agent.on("work", Script().says("It is").takes(0.5).says(" done."))
    telegram.loses_answer()
    async with life(tmp_path / "home", bot, agent):
        await telegram.says("work")
        await telegram.until(lambda: len(chat.texts) == 2)
    assert chat.texts == ["It is", f"{REPEATED}\nIt is done."]


@pytest.mark.skipif(os.name != "posix", reason="SIGKILL is POSIX")
@pytest.mark.timeout(240)
async def test_killed_at_any_moment_every_message_is_answered_and_what_repeats_says_so(
    telegram: BotApi, tmp_path: Path
) -> None:
    home, dice = tmp_path / "home", random.Random(7)  # noqa: S311
    home.mkdir()
    (home / "config.yaml").write_text(CONFIG.format(token=telegram.token, base_url=telegram.base_url))
    environ = {**os.environ, "XDG_STATE_HOME": str(tmp_path / "state")}
    said: list[tuple[str, str]] = []

    def answers(chat: str, text: str) -> list[str]:
        shown = telegram.chat(chat).texts
        return [
            one for one in shown if f"You said: {text}" in one and not one.endswith(("(interrupted)", "▉"))
        ]

    for kill in range(8):
        process = subprocess.Popen(
            [sys.executable, str(GATEWAY), str(home), str(tmp_path / "witness")], env=environ
        )
        try:
            seen = len(telegram.asked)
            await telegram.until(lambda seen=seen: len(telegram.asked) > seen)  # type: ignore[misc]
            for number in range(4):
                chat, text = str(1 + number % 3), f"thing {kill}-{number}."
                telegram.post(text, chat=chat)
                said.append((chat, text))
                await trio.sleep(dice.uniform(0, 0.15))
            if kill == 7:
                with trio.move_on_after(30):
                    while not all(answers(*one) for one in said):  # noqa: ASYNC110
                        await trio.sleep(0.1)
        finally:
            process.kill()
            process.wait()
    alone = accounts.left_alone(home)
    assert [one for one in said if not answers(*one) and one[1] not in alone] == []
    for chat, text in said:
        once, *again = sorted(answers(chat, text), key=lambda one: REPEATED in one)
        assert all(REPEATED in one for one in again), (once, again)
