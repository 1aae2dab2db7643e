"""What an agent may do to the gateway: nothing. Whatever it raises, returns or refuses, it is its turn that
ends by it, and everybody else is answered."""

from __future__ import annotations

import gc
import math
import shutil
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, closing, contextmanager, suppress
from typing import Any

import pytest
import trio
from outcome import Outcome
from trio.testing import MockClock

from hermes_trio.base.errors import JournalError
from hermes_trio.cli.subcommands.run_command import keep_armed
from hermes_trio.config.schema import AgentConfig
from hermes_trio.gateway.ending.control import Control
from hermes_trio.gateway.facade import Gateway
from hermes_trio.gateway.serve import serve
from hermes_trio.gateway.turn.agent_function import Agent
from hermes_trio.gateway.turn.context import TurnContext
from hermes_trio.host.home.state_file import read_status
from hermes_trio.host.loop.worker import Runner, inline_worker
from hermes_trio.platform.contract import Traits
from hermes_trio.state.tables.session_entry import Usage
from hermes_trio.testing import MemoryPlatform, Script
from tests.stage import Stage, everyone

Act = Callable[[TurnContext], Awaitable[object]]
HALF = "\ud83d"


def does(stage: Stage, act: Act) -> None:
    """Somebody else's agent: asked to work it does this."""
    ordinary = stage.agent

    async def agent(turn: TurnContext) -> object:
        if any(event.text == "work" for event in turn.said):
            await turn.requesting()
            return await act(turn)
        return await ordinary(turn)

    stage.agent = agent  # type: ignore[assignment]


async def answers(stage: Stage) -> bool:
    """Whether the gateway answers other people as before."""
    await stage.says("hello", chat="7")
    await trio.sleep(5)
    return stage.platform.chat("7").texts == ["You said: hello"]


class Wordless(Exception):
    """An error that cannot even be told."""

    def __str__(self) -> str:
        raise ValueError("no words")

    __repr__ = __str__


async def with_a_client_that_fails_when_it_is_cancelled(turn: TurnContext) -> None:
    async def client() -> None:
        try:
            await trio.sleep_forever()
        finally:
            raise ValueError("the connection was closed under me")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(client)
        await trio.sleep_forever()


async def test_a_task_of_the_agent_that_fails_while_its_turn_is_stopped_hurts_nobody(
    stage: Stage, autojump_clock: MockClock
) -> None:
    does(stage, with_a_client_that_fails_when_it_is_cancelled)
    async with stage.life():
        await stage.says("work")
        await trio.sleep(5)
        await stage.says("/stop")
        await trio.sleep(5)
        assert [turn.outcome for turn in stage.turns()] == ["stopped"]
        assert await answers(stage)


async def test_a_task_of_the_agent_that_fails_while_its_turn_times_out_hurts_nobody(
    stage: Stage, autojump_clock: MockClock
) -> None:
    stage.config = everyone(AgentConfig(gateway_timeout=100, gateway_timeout_warning=0))
    does(stage, with_a_client_that_fails_when_it_is_cancelled)
    async with stage.life():
        await stage.says("work")
        await trio.sleep(105)
        assert [turn.outcome for turn in stage.turns()] == ["timed_out"]
        assert await answers(stage)


async def test_a_task_of_the_agent_that_fails_while_its_turn_is_cut_keeps_nothing_from_ending(
    stage: Stage, autojump_clock: MockClock
) -> None:
    does(stage, with_a_client_that_fails_when_it_is_cancelled)
    async with stage.life() as gateway:
        await stage.says("work")
        await trio.sleep(5)
        gateway.stop(grace=1)
    assert [turn.outcome for turn in stage.turns()] == ["cut"]


@pytest.mark.parametrize("answer", [5, True, b"x", ["a"]], ids=repr)
async def test_an_answer_that_is_no_text_is_a_failure_told_in_words(
    stage: Stage, autojump_clock: MockClock, answer: object
) -> None:
    async def act(turn: TurnContext) -> object:
        return answer

    does(stage, act)
    async with stage.life() as gateway:
        await stage.says("work")
        await trio.sleep(5)
        [turn] = stage.turns()
        [text] = stage.platform.chat("42").texts
        assert turn.outcome == "failed"
        assert f"it answered with {type(answer).__name__}" in text
        assert (await gateway.home.journals.read(turn.session_id, turn.run_id)).terminal is not None
        assert await answers(stage)


async def test_half_a_character_at_the_end_of_an_answer_costs_that_character(
    stage: Stage, autojump_clock: MockClock
) -> None:
    async def act(turn: TurnContext) -> object:
        return f"Done {HALF}"

    does(stage, act)
    async with stage.life() as gateway:
        await stage.says("work")
        await trio.sleep(5)
        assert stage.platform.chat("42").texts == ["Done \N{REPLACEMENT CHARACTER}"]
        [turn] = stage.turns()
        assert (await gateway.home.journals.read(turn.session_id, turn.run_id)).terminal is not None


async def test_what_cannot_be_written_down_is_no_part_of_what_it_said(
    stage: Stage, autojump_clock: MockClock
) -> None:
    async def act(turn: TurnContext) -> object:
        await turn.say("It is ")
        with suppress(JournalError):
            await turn.say(HALF)
        await turn.say("7.")
        raise ValueError("nothing fits")

    does(stage, act)
    async with stage.life() as gateway:
        await stage.says("work")
        await trio.sleep(5)
        [turn] = stage.turns()
        assert turn.outcome == "failed"
        rows = await gateway.home.store.load_transcript(turn.session_id)
        assert next(row.content for row in rows if row.role == "assistant") == "It is 7."
        assert await answers(stage)


async def test_what_two_of_its_tasks_say_is_shown_when_each_is_in_the_journal(
    stage: Stage, autojump_clock: MockClock
) -> None:
    held: list[Callable[[], None]] = []
    holds = False

    @contextmanager
    def worker(name: str) -> Iterator[Runner]:
        with inline_worker(name) as runner:

            def later(job: Callable[[], Any], done: Callable[[Outcome[Any]], object]) -> None:
                if holds:
                    held.append(lambda: runner(job, done))
                else:
                    runner(job, done)

            yield later if name == "journal-writer" else runner

    async def act(turn: TurnContext) -> object:
        nonlocal holds
        await turn.say("Now ")
        holds = True
        async with trio.open_nursery() as nursery:
            nursery.start_soon(turn.say, "one, ")
            await trio.sleep(1)
            nursery.start_soon(turn.say, "two, ")
            await trio.sleep(1)
            held.pop(0)()
            await trio.sleep(10)
            seen.extend(stage.platform.chat("42").texts)
            holds = False
            held.pop(0)()
        return "Now one, two, three"

    seen: list[str] = []
    stage.platform = MemoryPlatform(traits=Traits(edits=True))
    stage.worker = worker
    does(stage, act)
    async with stage.life():
        await stage.says("work")
        await trio.sleep(30)
        assert [text.rstrip(" ▉") for text in seen] == ["Now one,"], "two is in no journal yet"
        assert stage.platform.chat("42").texts == ["Now one, two, three"]


@pytest.mark.parametrize(
    "error",
    [
        ValueError("nothing fits"),
        Wordless(),
        ExceptionGroup("several", [ValueError("one"), OSError(2, "another")]),
        BaseExceptionGroup("one", [SystemExit(3)]),
        SystemExit(3),
        StopAsyncIteration(),
        RecursionError(),
        MemoryError(),
    ],
    ids=lambda error: type(error).__name__,
)
async def test_whatever_it_raises_is_the_end_of_its_turn_and_no_more(
    stage: Stage, autojump_clock: MockClock, error: BaseException
) -> None:
    async def act(turn: TurnContext) -> object:
        raise error

    does(stage, act)
    async with stage.life():
        await stage.says("work")
        await trio.sleep(5)
        assert [turn.outcome for turn in stage.turns()] == ["failed"]
        assert len(stage.platform.chat("42").texts) == 1
        assert await answers(stage)


@pytest.mark.parametrize(
    "usage",
    [
        Usage(10**30, 1),
        Usage("5", 1),  # type: ignore[arg-type]
        Usage(None, 1),  # type: ignore[arg-type]
        Usage(1.5, 1),  # type: ignore[arg-type]
        Usage(-1, 1),
        Usage(1, 1, cost_usd=math.nan),
        Usage(1, 1, cost_usd=math.inf),
        {"input_tokens": 5},
    ],
    ids=repr,
)
async def test_what_nobody_can_have_used_is_not_counted(
    stage: Stage, autojump_clock: MockClock, usage: Usage
) -> None:
    async def act(turn: TurnContext) -> object:
        turn.usage = usage
        return "Done."

    does(stage, act)
    async with stage.life():
        await stage.says("work")
        await trio.sleep(5)
        assert stage.platform.chat("42").texts == ["Done."]
        assert stage.entry().usage == Usage()


async def test_an_agent_that_ignores_the_stop_and_answers_was_stopped(
    stage: Stage, autojump_clock: MockClock
) -> None:
    async def act(turn: TurnContext) -> object:
        await turn.say("I begin.")
        with suppress(trio.Cancelled):
            await trio.sleep_forever()
        return "I do not care."

    does(stage, act)
    async with stage.life():
        await stage.says("work")
        await trio.sleep(5)
        await stage.says("/stop")
        await trio.sleep(5)
        assert [turn.outcome for turn in stage.turns()] == ["stopped"]
        assert not any("I do not care" in text for text in stage.platform.chat("42").texts)
        assert await answers(stage)


ENDED_BY = {"/stop": "stopped", "/new": "reset", "another thing": "superseded"}


@pytest.mark.parametrize("how", ENDED_BY)
async def test_what_a_person_has_ended_is_not_cut_although_the_gateway_goes_while_it_tidies_up(
    stage: Stage, autojump_clock: MockClock, how: str
) -> None:
    stage.agent.on("work", Script().says("I begin.").hangs(resists=2))
    async with stage.life() as gateway:
        await stage.says("work")
        await trio.sleep(5)
        await stage.platform.says(how)
        await trio.sleep(1)
        gateway.stop(grace=0)
    async with stage.life():
        await trio.sleep(5)
        assert [said for said, _ in stage.agent.began].count("work") == 1, "it is not taken up again"
    with closing(sqlite3.connect(stage.home / "gateway.db")) as db:
        assert db.execute("SELECT outcome FROM turns ORDER BY turn_id LIMIT 1").fetchall() == [
            (ENDED_BY[how],)
        ]


async def test_what_a_person_has_stopped_is_not_taken_up_although_the_gateway_is_killed_while_it_tidies_up(
    stage: Stage, autojump_clock: MockClock
) -> None:
    stage.agent.on("work", Script().says("I begin.").hangs(resists=2))
    left = stage.home.with_name("left")
    async with stage.life():
        await stage.says("work")
        await trio.sleep(5)
        await stage.platform.says("/stop")
        await trio.sleep(1)
        assert [turn.outcome for turn in stage.turns()] == [None], "it still tidies up"
        shutil.copytree(stage.home, left)
        stage.platform.drop()
    stage.home = left
    async with stage.life() as gateway:
        await trio.sleep(5)
        assert [said for said, _ in stage.agent.began] == ["work"], "it is not taken up again"
        assert [turn.outcome for turn in stage.turns()] == ["stopped"]
        session = await gateway.home.reader.get_session(stage.entry().session_id)
        rows = session.rows if session is not None else ()
        assert any("I begin." in row.content for row in rows), "and what was shown is kept"


async def test_an_agent_that_cannot_be_closed_makes_no_crash_of_a_stop(
    stage: Stage, autojump_clock: MockClock
) -> None:
    @asynccontextmanager
    async def opened() -> AsyncIterator[Agent]:
        yield stage.agent
        raise ValueError("it cannot be closed")

    stage.opened_agent = opened()
    async with stage.life() as gateway:
        await stage.says("hello")
        await trio.sleep(5)
        gateway.stop(grace=0)
    status = read_status(stage.home)
    assert status is not None
    assert status.gateway_state == "stopped"


async def test_an_agent_that_cannot_be_opened_is_a_start_that_fails(
    stage: Stage, autojump_clock: MockClock
) -> None:
    @asynccontextmanager
    async def opened() -> AsyncIterator[Agent]:
        if stage.opened_agent:
            raise ValueError("there is no model")
        yield stage.agent

    stage.opened_agent = opened()
    with pytest.RaisesGroup(pytest.RaisesExc(ValueError, match="no model"), flatten_subgroups=True):
        async with stage.life():
            pytest.fail("it has started")


async def test_a_crash_is_a_crash_although_the_agent_hangs_when_it_is_closed(
    stage: Stage, autojump_clock: MockClock
) -> None:
    @asynccontextmanager
    async def opened() -> AsyncIterator[Agent]:
        try:
            yield stage.agent
        finally:
            await trio.sleep_forever()

    async def door(gateway: Gateway, task_status: trio.TaskStatus[None]) -> None:
        task_status.started()
        raise RuntimeError("a broken assumption")

    with (
        pytest.RaisesGroup(pytest.RaisesExc(RuntimeError, match="broken"), flatten_subgroups=True),
        trio.fail_after(100),
    ):
        await serve(
            stage.home,
            stage.config,
            agent=opened(),
            adapters=[stage.platform],
            doors=[door],
            world=stage.world,
            worker=stage.worker,
            guarded=stage.guarded,
        )


async def test_a_crash_waits_for_no_turn_that_cannot_be_cancelled(
    stage: Stage, autojump_clock: MockClock
) -> None:
    """As for one that waits for a thread: Trio waits too. `run` ends the process when it is time."""

    async def act(turn: TurnContext) -> object:
        with trio.CancelScope(shield=True):
            await trio.sleep(600)
        return "Done."

    async def door(gateway: Gateway, task_status: trio.TaskStatus[None]) -> None:
        task_status.started()
        await trio.sleep(20)
        raise RuntimeError("a broken assumption")

    does(stage, act)
    control = Control()
    armed: list[tuple[float, float]] = []
    began = trio.current_time()

    async def crashes() -> None:
        with pytest.RaisesGroup(pytest.RaisesExc(RuntimeError, match="broken"), flatten_subgroups=True):
            await serve(
                stage.home,
                stage.config,
                agent=stage.agent,
                adapters=[stage.platform],
                doors=[door],
                control=control,
                world=stage.world,
                worker=stage.worker,
                guarded=stage.guarded,
            )

    async with trio.open_nursery() as beside:
        beside.start_soon(
            keep_armed, control, lambda seconds: armed.append((trio.current_time() - began, seconds))
        )
        beside.start_soon(crashes)
        await trio.sleep(1)
        stage.platform.post("work")
    gc.enable()
    assert armed[0] == (20, 5)
