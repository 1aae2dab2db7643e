"""The exact cost of a turn with three tools."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest
import trio

from hermes_trio.testing.model_replies import Reply
from hermes_trio.tools.tool import Result, Tool, Workplace
from tests.web.conftest import WebStage

from .counted_life import complete, counted_web
from .job_counts import Cost


class Word(msgspec.Struct, frozen=True):
    word: str


async def spell(arguments: Word, place: Workplace) -> Result:
    await trio.lowlevel.checkpoint()
    return Result(" ".join(arguments.word))


WRITES = Tool("spell", "Spells a word.", Word, spell)
READS = replace(WRITES, reads_only=True)
ONE, TWO, THREE = ({"word": word} for word in ("one", "two", "three"))


async def cost_of(stage: WebStage, tool: Tool, *replies: Reply) -> Cost:
    """Return the cost of a turn in which the model calls this tool, then answers. It is not the first turn of
    its session."""
    async with counted_web(stage, [tool]) as (http, life):
        await complete(http)
        await life.cost()
        life.model.answers(*replies)
        assert "Hello there." in await complete(http)
        assert "o n e" in str(life.model.requests[-1].body)
        return await life.cost()


async def test_calls_of_one_reply_are_stored_together_and_each_result_alone(web_stage: WebStage) -> None:
    reply = Reply().calls("spell", ONE).calls("spell", TWO).calls("spell", THREE)
    assert await cost_of(web_stage, WRITES, reply) == Cost(commits=3 + 1 + 3, reads=2, journal=3 + 3 * 2)


async def test_results_of_tools_that_run_at_once_share_a_commit(web_stage: WebStage) -> None:
    reply = Reply().calls("spell", ONE).calls("spell", TWO).calls("spell", THREE)
    assert await cost_of(web_stage, READS, reply) == Cost(commits=3 + 1 + 1, reads=2, journal=3 + 2)


@pytest.mark.parametrize("tool", [WRITES, READS], ids=["writes", "reads"])
async def test_each_reply_with_a_call_costs_two_commits(web_stage: WebStage, tool: Tool) -> None:
    replies = (Reply().calls("spell", word) for word in (ONE, TWO, THREE))
    assert await cost_of(web_stage, tool, *replies) == Cost(commits=3 + 3 * 2, reads=2, journal=3 + 3 * 2)
