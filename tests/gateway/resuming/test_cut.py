"""Cut turns leave their end on the disk: each of many, also if the cut comes early or the disk is slow."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import TypeVar

import outcome
import pytest
import trio

from hermes_trio.config.schema import AgentConfig
from hermes_trio.gateway.turn.context import TurnContext
from hermes_trio.host.loop.worker import Runner, inline_worker
from hermes_trio.journal.reader import read_run
from hermes_trio.testing import Script
from tests.disk import Disk
from tests.stage import Stage, everyone

T = TypeVar("T")


async def test_each_of_many_turns_cut_at_once_has_an_end_a_mark_and_a_last_record(stage: Stage) -> None:
    chats = [str(number) for number in range(30)]
    stage.agent.on("work", Script().says("I begin.").hangs())
    async with stage.life() as gateway:
        for chat in chats:
            await stage.says("work", chat=chat)
        await trio.sleep(5)
        gateway.stop(grace=0)
    assert stage.ended_at == 5, "nothing hung, so the gateway ends with the last turn"
    for chat in chats:
        [turn] = stage.turns(chat)
        assert (turn.outcome, stage.entry(chat).resume_pending) == ("cut", True)
        reading = read_run(stage.home / "journal", turn.session_id, turn.run_id)
        assert reading.terminal is reading.records[-1]
        assert reading.terminal.terminal_state == "cut"


async def test_a_hanging_journal_does_not_delay_the_cut_of_a_turn(stage: Stage) -> None:
    """The commit decides the end of a turn. The journals get two seconds once, when they are closed."""
    disk = Disk(only=("journal-writer",))
    stage.worker = disk.worker
    stage.agent.on("work", Script().says("I begin.").hangs())
    async with stage.life() as gateway:
        await stage.says("work")
        disk.hangs = True
        gateway.stop(grace=0)
    assert stage.ended_at == 2
    assert (stage.turns()[0].outcome, stage.entry().resume_pending) == ("cut", True)


@pytest.mark.sqlite
async def test_a_turn_cut_before_its_row_is_reported_leaves_no_row(stage: Stage) -> None:
    """The disk has stored the row, and reports that only after the grace."""
    held: list[Callable[[], object]] = []

    @contextmanager
    def worker(name: str) -> Iterator[Runner]:
        with inline_worker(name) as at_once:

            def runner(job: Callable[[], T], done: Callable[[outcome.Outcome[T]], object]) -> None:
                result = outcome.capture(job)
                if name == "store-writer" and not held and _a_turn_began(stage.home / "gateway.db"):
                    held.append(partial(done, result))
                else:
                    at_once(result.unwrap, done)

            yield runner

    stage.worker = worker
    async with stage.life() as gateway:
        await stage.says("hello")
        gateway.stop(grace=0)
        await trio.sleep(1.5)  # a second to store the ending; then the turn is cut
        [answer] = held
        answer()
    assert stage.turns() == [], "no agent was called"
    assert stage.pending() == ["hello"]
    stage.worker = inline_worker
    async with stage.life():
        await trio.sleep(1)
    assert stage.platform.chat("42").texts.count("You said: hello") == 1


def _a_turn_began(path: Path) -> bool:
    with closing(sqlite3.connect(path)) as db:
        if not db.execute("SELECT 1 FROM sqlite_schema WHERE name = 'turns'").fetchall():
            return False
        return bool(db.execute("SELECT 1 FROM turns").fetchall())


@pytest.mark.sqlite
async def test_a_session_is_suspended_by_a_crash_and_not_by_a_planned_stop(stage: Stage) -> None:
    """With `crash_recovery: suspend`."""
    stage.config = everyone(AgentConfig(crash_recovery="suspend"))
    async with stage.life():
        await stage.says("hello")
        await trio.sleep(5)
        first = stage.entry().session_id
    left = stage.home.with_name("left")
    async with stage.life():
        await stage.says("again")
        await trio.sleep(5)
        assert stage.entry().session_id == first, "a stop suspends nothing"
        shutil.copytree(stage.home, left)
        stage.platform.drop()
    stage.home = left
    async with stage.life():
        await stage.says("once more")
        await trio.sleep(5)
        assert stage.entry().session_id != first, "a kill suspends the session"


class Killed(BaseException):
    """A kill by the kernel, for example because a history needs too much memory."""


@pytest.mark.parametrize("asks_first", [True, False])
async def test_a_message_that_kills_the_gateway_is_given_up_after_a_few_lives(
    stage: Stage, asks_first: bool
) -> None:
    ordinary = stage.agent

    async def agent(turn: TurnContext) -> str:
        said = [event.text for event in turn.said] or [row.content for row in turn.history]
        if "poison" not in said:
            return await ordinary(turn)
        if asks_first:
            await turn.requesting()
        raise Killed

    stage.agent = agent  # type: ignore[assignment]
    for life in range(12):
        try:
            async with stage.life():
                if life == 0:
                    stage.platform.post("poison")
                await trio.sleep(100)
                await stage.says("hello", chat="7")
                await trio.sleep(5)
                assert stage.platform.chat("7").texts[-1] == "You said: hello"
                break
        except* Killed:
            pass
    assert life == (2 if asks_first else 5)
