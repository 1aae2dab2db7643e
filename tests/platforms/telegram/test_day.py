"""A day of traffic on the virtual clock, with rate limits, lost connections, hours without a network, server
errors and three restarts. Every message is answered once and in order, and the memory of the gateway does not
grow.

The quick test has few messages; `make soak` runs the whole day.
"""

from __future__ import annotations

import gc
import random
import re
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from hermes_platforms.telegram.adapter import TelegramAdapter
from hermes_platforms.telegram.testing import ApiError, BotApi, open_bot_api
from hermes_trio.base.world import World
from hermes_trio.config.schema import DisplayConfig, GatewayConfig, PlatformConfig
from hermes_trio.gateway.facade import RunningGateway
from hermes_trio.gateway.serve import Setup, serve
from hermes_trio.gateway.turn.context import TurnContext
from hermes_trio.host.loop.worker import inline_worker
from hermes_trio.platform.contract import FloodWait
from hermes_trio.state.tables.transcript import TranscriptRow
from tests.stage import no_guard

DAY = 86_400.0
ANSWER = re.compile(r"Answer to ([-\d ]+)\.$")
"""An answer. Messages that have waited together are answered together."""


@dataclass
class Day:
    """A day: its messages, its answers and the measurements."""

    home: Path
    telegram: BotApi
    chats: int
    messages: int
    said: dict[str, list[str]] = field(default_factory=dict)
    answered: dict[str, list[str]] = field(default_factory=dict)
    other: Counter[str] = field(default_factory=Counter)
    """Other texts in the chats, with their number."""
    held: list[tuple[int, int]] = field(default_factory=list)
    """Numbers of objects and of tasks, measured from time to time."""

    def look(self) -> None:
        """Record the texts of the chats and remove them, so that only the memory of the gateway is
        measured."""
        for number in range(1, self.chats + 1):
            chat = self.telegram.chat(str(number))
            growing = [one for one in chat.messages if not one.text.endswith(".")]
            for one in chat.messages:
                if found := ANSWER.search(one.text):
                    self.answered.setdefault(str(number), []).extend(found[1].split())
                elif one not in growing:
                    self.other[one.text] += 1
            chat.messages[:], chat.typing_at[:] = growing, []
        for kept in (self.telegram.history, self.telegram.asked, self.telegram.entities):
            kept.clear()

    def measure(self) -> None:
        self.look()
        gc.collect()
        # Not the transcripts in memory: a day stays far below their limit in bytes, so they grow.
        objects = sum(type(one) is not TranscriptRow for one in gc.get_objects())
        self.held.append((objects, trio.lowlevel.current_statistics().tasks_living))


async def agent(turn: TurnContext) -> str:
    """Answer after a while, in pieces."""
    await turn.requesting()
    said = " ".join(event.text for event in turn.said) or turn.history[-1].content
    for piece in ("Answer", " to", f" {said}."):
        await trio.sleep(1)
        await turn.say(piece)
    return f"Answer to {said}."


def world() -> World:
    start = datetime(2026, 5, 20, tzinfo=UTC)
    return World(now=lambda: start + timedelta(seconds=trio.current_time()), jitter=lambda: 0.0, zone=UTC)


@asynccontextmanager
async def life(day: Day) -> AsyncIterator[RunningGateway]:
    """Run the gateway for the block. It ends as for a restart, with a grace period for running turns."""
    config = GatewayConfig(
        platforms={"telegram": PlatformConfig(allow_from="all")},
        display=DisplayConfig(busy_input_mode="queue"),
    )
    bot = TelegramAdapter(day.telegram.token, base_url=day.telegram.base_url)
    async with trio.open_nursery() as nursery:

        async def run(task_status: trio.TaskStatus[RunningGateway]) -> None:
            await serve(
                Setup(
                    day.home,
                    config,
                    agent=agent,
                    adapters=[bot],
                    world=world(),
                    worker=inline_worker,
                    guarded=no_guard,
                ),
                task_status=task_status,
            )

        gateway = await nursery.start(run)
        yield gateway
        gateway.stop(grace=60, asked_by="the day")


async def people(day: Day) -> None:
    """Send messages at random times of the day."""
    dice = random.Random(1)  # noqa: S311
    for number, at in enumerate(sorted(dice.uniform(0, DAY) for _ in range(day.messages))):
        await trio.sleep_until(at)
        chat = str(1 + number % day.chats)
        text = f"{chat}-{number}"
        day.said.setdefault(chat, []).append(text)
        day.telegram.post(text, chat=chat)


async def failures(day: Day, every: float) -> None:
    """Cause failures at random times."""
    telegram, dice = day.telegram, random.Random(2)  # noqa: S311
    while True:
        await trio.sleep(dice.uniform(0.5, 1.5) * every)
        match dice.randrange(6):
            case 0:
                telegram.fails("send", FloodWait(dice.randrange(1, 40)), times=dice.randrange(1, 3))
            case 1:
                telegram.fails("edit", FloodWait(dice.randrange(1, 40)), times=dice.randrange(1, 5))
            case 2:
                telegram.drop()
            case 3:
                telegram.answers("getUpdates", ApiError(502, "Bad Gateway"))
            case 4:
                telegram.answers("getUpdates", ApiError(409, "Conflict: terminated by other getUpdates"))
            case 5:
                async with telegram.away():
                    await trio.sleep(dice.uniform(60, 7200))


async def live(day: Day, *, seconds_between_failures: float) -> None:
    async with trio.open_nursery() as outside:
        outside.start_soon(people, day)
        outside.start_soon(failures, day, seconds_between_failures)
        for quarter in range(1, 5):
            async with life(day):
                await trio.sleep_until(quarter * DAY / 4 - DAY / 16)
                day.measure()
                await trio.sleep_until(quarter * DAY / 4)
        outside.cancel_scope.cancel()
    async with life(day):
        await trio.sleep(DAY / 8)
    day.look()


def assert_answered(day: Day) -> None:
    assert sum(map(len, day.said.values())) == day.messages
    assert day.answered == day.said, "each once, and in order"
    # Other texts are only notices about waiting and about cut turns, and never a part of an answer.
    assert [text for text in day.other if not text.startswith(("⏳", "⚠"))] == []
    left = [text for number in range(1, day.chats + 1) for text in day.telegram.chat(str(number)).texts]
    assert set(left) <= {"…"}, "no message is left unfinished"
    objects = [count for count, _ in day.held]
    assert objects[-1] < objects[0] * 1.05 + 2000, objects
    tasks = [count for _, count in day.held]
    assert max(tasks) - min(tasks) <= 3 * day.chats + 10, tasks


@pytest.mark.timeout(120)
async def test_each_message_of_a_short_day_is_answered_once(
    state_home: Path, tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with open_bot_api() as telegram:
        day = Day(tmp_path / "home", telegram, chats=10, messages=200)
        await live(day, seconds_between_failures=3000)
    assert_answered(day)


@pytest.mark.soak
@pytest.mark.timeout(3600)
async def test_each_message_of_a_whole_day_is_answered_once(
    state_home: Path, tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with open_bot_api() as telegram:
        day = Day(tmp_path / "home", telegram, chats=100, messages=10_000)
        await live(day, seconds_between_failures=600)
    assert_answered(day)
