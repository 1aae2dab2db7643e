"""Stories that chance writes: whatever people, agents, platforms, disks and time do in several lives of one
home, what was promised is kept. A story that fails is told again by its number."""

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
import trio.testing

from tests.gateway.chance import any_books, any_shown
from tests.gateway.chance.any_books import Books
from tests.gateway.chance.any_plan import Plan, plan
from tests.gateway.chance.any_story import Story
from tests.gateway.stopping.orphans import held
from tests.logs import capture_logs

A_YEAR = 365 * 86400.0
Look = Callable[[Books], Iterator[str]]
LOOKS = (
    any_books.cuts_are_taken_up_once,
    any_books.no_mark_is_left,
    any_books.nothing_is_left_open,
    any_books.every_message_has_its_row,
    any_books.every_message_came_to_something,
    any_books.who_is_stuck_is_told,
    any_books.what_is_finished_is_not_run_again,
    any_books.only_what_waited_is_run,
    any_books.what_was_stopped_is_not_taken_up,
    any_shown.order_is_kept,
    any_shown.what_is_shown_is_shown_once,
    any_shown.nothing_is_asked_any_more,
    any_shown.answers_are_shown,
    any_shown.the_last_words_are_answered,
    any_shown.journals_say_the_same,
    any_shown.transcripts_are_whole,
)


async def wrong_in(story: Story) -> list[str]:
    """Tell the story to its end; what is not as it was promised."""
    await story.told()
    wrong = _found(story, [any_books.nothing_is_left_open])
    await story.last_words()
    wrong += _found(story, [any_books.nothing_is_owed])
    await story.silence()
    return story.wrong + wrong + _found(story, LOOKS)


def _found(story: Story, looks: Iterable[Look]) -> list[str]:
    with closing(sqlite3.connect(story.home / "gateway.db")) as db:
        books = Books(story, db)
        return [f"{look.__name__}: {what}" for look in looks for what in look(books)]


def told(story: Plan, root: Path) -> list[str]:
    """Tell this story, the same way each time; what is wrong in it."""
    # The loop runs its tasks in an order that it draws by lot.
    loop: Any = trio._core._run
    former, loop._ALLOW_DETERMINISTIC_SCHEDULING = loop._ALLOW_DETERMINISTIC_SCHEDULING, True
    loop._r.seed(story.seed)

    async def to_the_end() -> list[str]:
        before = held()
        with trio.fail_after(A_YEAR):
            wrong = await wrong_in(Story(story, root))
        return wrong + [f"left behind: {what}" for what in held().beyond(before)]

    try:
        with capture_logs():
            return trio.run(to_the_end, clock=trio.testing.MockClock(autojump_threshold=0))
    finally:
        loop._ALLOW_DETERMINISTIC_SCHEDULING = former
        loop._r.seed()


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Path]:
    """Where the homes are: in memory, where there is such a place. What counts is what was committed, and a
    real disk takes five times as long to say so."""
    memory = Path("/dev/shm")  # noqa: S108
    with TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else tmp_path) as root:
        yield Path(root)


def tell(seed: int, root: Path) -> None:
    """Tell the story of this number, which keeps what was promised."""
    print(story := plan(seed))  # shown where it fails
    assert told(story, root / "story") == []
    shutil.rmtree(root / "story")


@pytest.mark.timeout(300)
def test_any_story_keeps_what_was_promised(root: Path) -> None:
    for seed in range(50):
        tell(seed, root)


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_thousands_of_stories_keep_it_too(root: Path) -> None:
    began, first = time.monotonic(), random.SystemRandom().randrange(10**9)
    for seed in itertools.takewhile(lambda _: time.monotonic() - began < 900, itertools.count(first)):
        tell(seed, root)
