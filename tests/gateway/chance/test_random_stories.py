"""Random stories: whatever people, agents, platforms, disks and the clock do in several lives of one home,
all promises are kept. A failing story is repeated by its seed."""

from __future__ import annotations

import itertools
import os
import random
import shutil
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import trio
import trio._core._run
from trio.testing import MockClock

from tests.gateway.chance import chat_checks, database_checks
from tests.gateway.chance.database_checks import Evidence
from tests.gateway.chance.random_plan import Plan, make_plan
from tests.gateway.chance.random_story import Story
from tests.gateway.stopping.orphans import held
from tests.guest_host import AVAILABLE, run_on
from tests.logs import capture_logs

YEAR = 365 * 86400.0
Check = Callable[[Evidence], Iterator[str]]
CHECKS = (
    database_checks.cut_turns_are_resumed_once,
    database_checks.no_mark_is_left,
    database_checks.nothing_is_open,
    database_checks.every_message_has_its_row,
    database_checks.every_message_has_an_outcome,
    database_checks.suspended_sessions_are_told,
    database_checks.finished_messages_are_not_run_again,
    database_checks.only_waiting_messages_are_run,
    database_checks.stopped_turns_are_not_resumed,
    chat_checks.order_is_kept,
    chat_checks.answers_are_shown_once,
    chat_checks.no_buttons_are_left,
    chat_checks.answers_are_shown,
    chat_checks.last_messages_are_answered,
    chat_checks.journals_agree_with_outcomes,
    chat_checks.transcripts_are_complete,
)


async def find_problems(story: Story) -> list[str]:
    """Play the story to its end, and return the violated promises."""
    await story.play()
    problems = _violations(story, [database_checks.nothing_is_open])
    await story.last_messages()
    problems += _violations(story, [database_checks.no_delivery_is_owed])
    await story.silence()
    return story.problems + problems + _violations(story, CHECKS)


def _violations(story: Story, checks: Iterable[Check]) -> list[str]:
    with closing(sqlite3.connect(story.home / "gateway.db")) as db:
        evidence = Evidence(story, db)
        return [f"{check.__name__}: {found}" for check in checks for found in check(evidence)]


def play(plan: Plan, root: Path, host: str) -> list[str]:
    """Play this plan on this host, the same way each time, and return the violated promises."""
    # The loop shuffles its tasks; with this seed it does so in the same way.
    loop: Any = trio._core._run
    former, loop._ALLOW_DETERMINISTIC_SCHEDULING = loop._ALLOW_DETERMINISTIC_SCHEDULING, True
    loop._r.seed(plan.seed)

    async def to_the_end() -> list[str]:
        before = held()
        with trio.fail_after(YEAR):
            problems = await find_problems(Story(plan, root))
        return problems + [f"left behind: {what}" for what in held().beyond(before)]

    try:
        with capture_logs():
            problems: list[str] = run_on(host)(to_the_end, clock=MockClock(autojump_threshold=0))
            return problems
    finally:
        loop._ALLOW_DETERMINISTIC_SCHEDULING = former
        loop._r.seed()


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Path]:
    """A directory for the homes, in memory if possible: only the commits count, and a real disk takes five
    times as long."""
    memory = Path("/dev/shm")  # noqa: S108
    with TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else tmp_path) as root:
        yield Path(root)


@pytest.fixture
def host(pytestconfig: pytest.Config) -> str:
    """The host of the whole suite."""
    return str(pytestconfig.getoption("--host"))


def check_story(seed: int, root: Path, host: str) -> None:
    """Play the story of this seed, and check that it keeps all promises."""
    print(plan := make_plan(seed))  # shown if the test fails
    assert play(plan, root / "story", host) == []
    shutil.rmtree(root / "story")


@pytest.mark.timeout(300)
def test_random_stories_keep_all_promises(root: Path, host: str) -> None:
    for seed in range(50):
        check_story(seed, root, host)


@pytest.mark.parametrize("guest_of", AVAILABLE)
def test_random_stories_as_a_guest_keep_all_promises(root: Path, guest_of: str) -> None:
    for seed in range(100, 108):
        check_story(seed, root, guest_of)


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_thousands_of_random_stories_keep_all_promises(root: Path, host: str) -> None:
    began, first = time.monotonic(), random.SystemRandom().randrange(10**9)
    for seed in itertools.takewhile(lambda _: time.monotonic() - began < 900, itertools.count(first)):
        check_story(seed, root, host)
