"""A month of a gateway with many users: chats come and go, with resets, restarts and stops. Its files, rows,
pages and objects in memory do not grow."""

from __future__ import annotations

import gc
import random
from collections.abc import Callable
from dataclasses import dataclass

import msgspec
import pytest
import trio

from hermes_trio.config.retention_section import RetentionConfig
from hermes_trio.config.schema import AgentConfig, SessionReset
from hermes_trio.gateway.ending.endings_table import Cause, Ending
from hermes_trio.platform.contract import Traits
from hermes_trio.testing import MemoryPlatform, Script
from tests.stage import Stage, everyone
from tests.state.rows import TABLES

HOUR = 3600.0
DAY = 24 * HOUR


@dataclass(frozen=True, slots=True)
class Size:
    """Sizes of a home and of the process."""

    files: int
    rows: int
    index: int
    """Blocks of the search index."""
    pages: int
    """Pages of the database, free ones included."""
    objects: int

    @classmethod
    def of(cls, stage: Stage) -> Size:
        files = [path for path in stage.home.rglob("*") if path.is_file()]
        with stage.looking() as db:

            def one(query: str) -> int:
                (number,) = db.execute(query).fetchone()
                return int(number)

            rows = sum(one(f"SELECT count(*) FROM {table}") for table in TABLES)  # noqa: S608
            index, pages = one("SELECT count(*) FROM messages_text_data"), one("PRAGMA page_count")
        gc.collect()
        return cls(len(files), rows, index, pages, len(gc.get_objects()))


class Month:
    """A use of the stage by many chats; each chat is used for a few days."""

    def __init__(self, stage: Stage, chats_a_day: int) -> None:
        self.stage, self.chats_a_day = stage, chats_a_day
        self.dice = random.Random(7)  # noqa: S311
        stage.platform = MemoryPlatform(traits=Traits(edits=True))
        config = everyone(AgentConfig(restart_drain_timeout=30), busy="queue")
        self.stage.config = msgspec.structs.replace(
            config,
            session_reset=SessionReset(mode="both", idle_minutes=600),
            retention=RetentionConfig(
                inbox_days=2, outbox_days=2, spool_days=2, journal_days=3, session_days=4
            ),
        )
        self.said = 0

    async def day(self, number: int) -> None:
        """Play one day, in one or more lives."""
        hours_of_lives = self.dice.choice([(24,), (10, 14), (3, 9, 12)])
        for hours in hours_of_lives:
            async with self.stage.life() as gateway:
                for _ in range(hours):
                    await self.hour(number)
                    await trio.sleep(HOUR - 60)
                await self.stage.says("work all night", chat=f"{number}-worker")
                await trio.sleep(60)
                cause = self.dice.choice([Cause.PLANNED, Cause.RESTART, Cause.SIGNAL])
                gateway.control.ask(Ending(cause, grace=self.dice.choice([0, 30]), asked_by="the month"))
        # The records of the test are no part of the measured sizes.
        self.stage.platform = MemoryPlatform(traits=Traits(edits=True))
        self.stage.agent.began.clear()
        self.stage.agent.left.clear()
        self.stage.agent.prompts.clear()

    async def hour(self, day: int) -> None:
        for _ in range(max(1, self.chats_a_day // 24)):
            # New chats, and some chats of the days before.
            chat = f"{day - self.dice.choice([0, 0, 0, 0, 1, 2])}-{self.dice.randrange(self.chats_a_day)}"
            text = " ".join(self.dice.choices(WORDS, k=12))
            await self.stage.platform.says(text, chat=chat)
            self.said += 1


WORDS = [f"word{number}" for number in range(500)]


async def play_days(stage: Stage, *, days: int, chats_a_day: int) -> dict[int, Size]:
    month = Month(stage, chats_a_day)
    stage.agent.on("work all night", Script().says("I begin.").takes(10 * HOUR).says("Done."))
    sizes = {}
    for number in range(days):
        await month.day(number)
        sizes[number] = Size.of(stage)
    assert month.said > days * chats_a_day / 2
    return sizes


def check_flat(sizes: dict[int, Size], what: Callable[[Size], int], *, slack: float) -> None:
    """Check that the last third of the days is not larger than the second, after the first deletions."""
    days = len(sizes)
    second = [what(sizes[day]) for day in range(days // 3, 2 * days // 3)]
    third = [what(sizes[day]) for day in range(2 * days // 3, days)]
    assert max(third) <= max(second) * (1 + slack), (second, third)


@pytest.mark.parametrize(
    ("days", "chats_a_day"),
    [
        pytest.param(15, 24, marks=pytest.mark.timeout(300)),
        pytest.param(30, 240, marks=[pytest.mark.soak, pytest.mark.timeout(3600)]),
    ],
)
async def test_the_size_of_a_home_does_not_grow_within_a_month(
    stage: Stage, days: int, chats_a_day: int
) -> None:
    sizes = await play_days(stage, days=days, chats_a_day=chats_a_day)
    print(*(f"day {day}: {size}" for day, size in sizes.items()), sep="\n")  # shown if the test fails
    check_flat(sizes, lambda size: size.files, slack=0.2)
    check_flat(sizes, lambda size: size.rows, slack=0.2)
    check_flat(sizes, lambda size: size.index, slack=1.0)
    check_flat(sizes, lambda size: size.pages, slack=0.2)
    check_flat(sizes, lambda size: size.objects, slack=0.05)
