"""Errors and answers of an agent, whatever they are: they end its turn only, and other chats are answered."""

from __future__ import annotations

import math
from contextlib import suppress

import pytest
import trio

from hermes_trio.base.errors import JournalError
from hermes_trio.config.schema import AgentConfig
from hermes_trio.gateway.turn.context import TurnContext
from hermes_trio.platform.contract import Traits
from hermes_trio.state.tables.session_entry import Usage
from hermes_trio.testing import MemoryPlatform
from tests.disk import Disk
from tests.stage import Stage, everyone

HALF = "\ud83d"


async def other_chat_is_answered(stage: Stage) -> bool:
    """Return whether the gateway still answers another chat."""
    await stage.says("hello", chat="7")
    await trio.sleep(5)
    return stage.platform.chat("7").texts == ["You said: hello"]


class TextlessError(Exception):
    """An error without a text: `str` of it raises."""

    def __str__(self) -> str:
        raise ValueError("no words")

    __repr__ = __str__


async def run_failing_client(turn: TurnContext) -> None:
    async def client() -> None:
        try:
            await trio.sleep_forever()
        finally:
            raise ValueError("the connection was closed under me")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(client)
        await trio.sleep_forever()


async def test_a_failing_task_of_the_agent_does_not_disturb_the_stop_of_its_turn(stage: Stage) -> None:
    stage.agent.does("work", run_failing_client)
    async with stage.life():
        await stage.says("work")
        await trio.sleep(5)
        await stage.says("/stop")
        await trio.sleep(5)
        assert [turn.outcome for turn in stage.turns()] == ["stopped"]
        assert await other_chat_is_answered(stage)


async def test_a_failing_task_of_the_agent_does_not_disturb_the_timeout_of_its_turn(stage: Stage) -> None:
    stage.config = everyone(AgentConfig(gateway_timeout=100, gateway_timeout_warning=0))
    stage.agent.does("work", run_failing_client)
    async with stage.life():
        await stage.says("work")
        await trio.sleep(105)
        assert [turn.outcome for turn in stage.turns()] == ["timed_out"]
        assert await other_chat_is_answered(stage)


async def test_a_failing_task_of_the_agent_does_not_disturb_the_cut_of_its_turn(
    stage: Stage,
) -> None:
    stage.agent.does("work", run_failing_client)
    async with stage.life() as gateway:
        await stage.says("work")
        await trio.sleep(5)
        gateway.stop(grace=1)
    assert [turn.outcome for turn in stage.turns()] == ["cut"]


@pytest.mark.parametrize("answer", [5, True, b"x", ["a"]], ids=repr)
async def test_an_answer_that_is_no_text_fails_the_turn_with_a_message(stage: Stage, answer: object) -> None:
    async def act(turn: TurnContext) -> object:
        return answer

    stage.agent.does("work", act)
    async with stage.life() as gateway:
        await stage.says("work")
        await trio.sleep(5)
        [turn] = stage.turns()
        [text] = stage.platform.chat("42").texts
        assert turn.outcome == "failed"
        assert f"it answered with {type(answer).__name__}" in text
        assert (await gateway.home.journals.read(turn.session_id, turn.run_id)).terminal is not None
        assert await other_chat_is_answered(stage)


async def test_a_lone_surrogate_at_the_end_of_an_answer_is_replaced(stage: Stage) -> None:
    async def act(turn: TurnContext) -> object:
        return f"Done {HALF}"

    stage.agent.does("work", act)
    async with stage.life() as gateway:
        await stage.says("work")
        await trio.sleep(5)
        assert stage.platform.chat("42").texts == ["Done \N{REPLACEMENT CHARACTER}"]
        [turn] = stage.turns()
        assert (await gateway.home.journals.read(turn.session_id, turn.run_id)).terminal is not None


async def test_a_piece_that_cannot_be_stored_is_no_part_of_the_answer(stage: Stage) -> None:
    async def act(turn: TurnContext) -> object:
        await turn.say("It is ")
        with suppress(JournalError):
            await turn.say(HALF)
        await turn.say("7.")
        raise ValueError("nothing fits")

    stage.agent.does("work", act)
    async with stage.life() as gateway:
        await stage.says("work")
        await trio.sleep(5)
        [turn] = stage.turns()
        assert turn.outcome == "failed"
        rows = await gateway.home.store.load_transcript(turn.session_id)
        assert next(row.content for row in rows if row.role == "assistant") == "It is 7."
        assert await other_chat_is_answered(stage)


async def test_pieces_of_two_tasks_are_shown_when_each_is_in_the_journal(stage: Stage) -> None:
    disk = Disk(only=("journal-writer",))

    async def act(turn: TurnContext) -> object:
        await turn.say("Now ")
        disk.hangs = True
        async with trio.open_nursery() as nursery:
            nursery.start_soon(turn.say, "one, ")
            await trio.sleep(1)
            nursery.start_soon(turn.say, "two, ")
            await trio.sleep(1)
            disk.does_one()
            await trio.sleep(10)
            seen.extend(stage.platform.chat("42").texts)
            disk.hangs = False
            disk.does_one()
        return "Now one, two, three"

    seen: list[str] = []
    stage.platform = MemoryPlatform(traits=Traits(edits=True))
    stage.worker = disk.worker
    stage.agent.does("work", act)
    async with stage.life():
        await stage.says("work")
        await trio.sleep(30)
        assert [text.rstrip(" ▉") for text in seen] == ["Now one,"], (
            "the journal does not have the second piece yet"
        )
        assert stage.platform.chat("42").texts == ["Now one, two, three"]


@pytest.mark.parametrize(
    "error",
    [
        ValueError("nothing fits"),
        TextlessError(),
        ExceptionGroup("several", [ValueError("one"), OSError(2, "another")]),
        BaseExceptionGroup("one", [SystemExit(3)]),
        SystemExit(3),
        StopAsyncIteration(),
        RecursionError(),
        MemoryError(),
    ],
    ids=lambda error: type(error).__name__,
)
async def test_an_exception_of_the_agent_ends_its_turn_only(stage: Stage, error: BaseException) -> None:
    async def act(turn: TurnContext) -> object:
        raise error

    stage.agent.does("work", act)
    async with stage.life():
        await stage.says("work")
        await trio.sleep(5)
        assert [turn.outcome for turn in stage.turns()] == ["failed"]
        assert len(stage.platform.chat("42").texts) == 1
        assert await other_chat_is_answered(stage)


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
async def test_an_impossible_usage_is_not_counted(stage: Stage, usage: Usage) -> None:
    async def act(turn: TurnContext) -> object:
        turn.usage = usage
        return "Done."

    stage.agent.does("work", act)
    async with stage.life():
        await stage.says("work")
        await trio.sleep(5)
        assert stage.platform.chat("42").texts == ["Done."]
        assert stage.entry().usage == Usage()


async def test_an_agent_that_ignores_the_stop_and_answers_was_stopped(stage: Stage) -> None:
    async def act(turn: TurnContext) -> object:
        await turn.say("I begin.")
        with suppress(trio.Cancelled):
            await trio.sleep_forever()
        return "I do not care."

    stage.agent.does("work", act)
    async with stage.life():
        await stage.says("work")
        await trio.sleep(5)
        await stage.says("/stop")
        await trio.sleep(5)
        assert [turn.outcome for turn in stage.turns()] == ["stopped"]
        assert not any("I do not care" in text for text in stage.platform.chat("42").texts)
        assert await other_chat_is_answered(stage)
