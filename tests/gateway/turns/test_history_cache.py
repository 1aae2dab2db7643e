"""The transcripts in memory: an agent is shown what is stored, and their bytes have a limit."""

from __future__ import annotations

import gc

from hermes_trio.gateway.turn.context import TurnContext
from hermes_trio.gateway.turn.history_cache import MOST_BYTES
from hermes_trio.state.tables.transcript import TranscriptRow
from tests.stage import Stage


async def test_the_history_of_each_turn_is_what_was_stored_before(stage: Stage) -> None:
    seen: list[list[str]] = []

    async def act(turn: TurnContext) -> str:
        await turn.requesting()
        seen.append([row.content for row in turn.history])
        return f"heard {turn.said[0].text}"

    for word in ("one", "two", "three", "four", "five"):
        stage.agent.does(word, act)
    async with stage.life():
        await stage.says("one")
        await stage.says("two")
        await stage.says("/undo")
        await stage.says("three")
        await stage.says("/retry")
        await stage.says("/new")
        await stage.says("four")
    async with stage.life():
        await stage.says("five")
    one = ["one", "heard one"]
    assert seen == [[], one, one, one, [], ["four", "heard four"]]


async def test_a_session_that_was_dropped_from_memory_reads_itself_back(stage: Stage) -> None:
    seen: list[list[str]] = []

    async def agent(turn: TurnContext) -> str:
        await turn.requesting()
        if turn.said[0].text in ("one", "two"):
            seen.append([row.content for row in turn.history])
        return "heard"

    stage.agent = agent  # type: ignore[assignment]
    part = "x" * 3_000_000
    async with stage.life():
        await stage.says("one")
        for number in range(2 * MOST_BYTES // len(part)):
            await stage.says(part, chat=f"other {number % 8}")
        gc.collect()
        held = sum(len(each.content) for each in gc.get_objects() if type(each) is TranscriptRow)
        assert MOST_BYTES // 2 < held <= MOST_BYTES + 2 * len(part)
        await stage.says("two")
    assert seen == [[], ["one", "heard"]]
