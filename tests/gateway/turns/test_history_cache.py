"""The transcripts in memory: an agent is shown what is stored."""

from __future__ import annotations

from hermes_trio.gateway.turn.context import TurnContext
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
