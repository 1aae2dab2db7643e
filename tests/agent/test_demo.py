"""The demo: a model without a network, used by the same loop and with the same tools as every model."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
import trio

from hermes_trio.agent.demo_model import ABOUT
from hermes_trio.agent.model_agent import open_agent
from hermes_trio.config.config_file import Loaded
from hermes_trio.config.schema import GatewayConfig, ModelConfig
from hermes_trio.gateway.outbound import texts
from hermes_trio.tools.tool import Result, Tool, Workplace
from tests.stage import Stage


class Command(msgspec.Struct, frozen=True):
    command: str


class Question(msgspec.Struct, frozen=True):
    question: str
    choices: tuple[str, ...] = ()


async def _run(arguments: Command, place: Workplace) -> Result:
    if "rm -rf" in arguments.command:
        said = await place.may(arguments.command)
        return Result("gone" if said else "You may not.")
    return Result(f"ran {arguments.command.split()[-1]}")


async def _clarify(arguments: Question, place: Workplace) -> Result:
    return Result(await place.ask(arguments.question, arguments.choices) or "nobody there")


TOOLS = [Tool("terminal", "Runs.", Command, _run), Tool("clarify", "Asks.", Question, _clarify)]

OpenDemo = Callable[..., Stage]


@pytest.fixture
def demo(stage: Stage) -> OpenDemo:
    def open_demo(*tools: Tool, announced: Callable[[str], object] | None = None) -> Stage:
        config = GatewayConfig(model=ModelConfig(provider="demo"))
        loaded = Loaded(config, (), Path("config.yaml"), {"model.provider": "config.yaml"})
        box = {tool.name: tool for tool in tools}
        stage.opened_agent = open_agent(loaded, {}, stage.world, tools=box, tell=announced)
        return stage

    return open_demo


def last(stage: Stage) -> str:
    return stage.platform.chat("42").last or ""


async def test_the_demo_explains_itself_and_how_to_connect_a_model(demo: OpenDemo) -> None:
    announced: list[str] = []
    stage = demo(announced=announced.append)
    async with stage.life():
        await stage.says("hi")
        await trio.sleep(30)
        assert last(stage) == ABOUT.strip()
    assert announced == ["The demo answers, because config.yaml says so."]


async def test_the_demo_repeats_a_few_words_at_a_time(demo: OpenDemo) -> None:
    stage = demo()
    async with stage.life():
        await stage.says("the quick brown fox " * 20)
        await trio.sleep(2)
        assert last(stage).endswith("▉"), "the message grows"
        await trio.sleep(10)
        assert last(stage) == f"You said: {'the quick brown fox ' * 20}".strip()


async def test_the_demo_counts_slowly_and_can_be_stopped(demo: OpenDemo) -> None:
    stage = demo()
    async with stage.life():
        await stage.says("count to 3")
        await trio.sleep(2.9)
        assert [turn.outcome for turn in stage.turns()] == [None]
        await trio.sleep(0.2)
        assert last(stage) == "1\n2\n3\nDone."
        await stage.says("count to 50")
        await trio.sleep(5.5)
        await stage.says("/stop")
        await trio.sleep(10)
        assert [turn.outcome for turn in stage.turns()] == ["answered", "stopped"]
        assert any(texts.cut_off("1\n2\n3\n4\n5\n6\n") in text for text in stage.platform.chat("42").texts)


async def test_the_demo_works_for_a_minute(demo: OpenDemo) -> None:
    stage = demo()
    async with stage.life():
        await stage.says("work")
        await trio.sleep(59.9)
        assert [turn.outcome for turn in stage.turns()] == [None]
        await trio.sleep(0.2)
        assert last(stage) == "Working for a minute" + " ." * 12 + " done."


async def test_the_demo_resumes_a_cut_answer(demo: OpenDemo) -> None:
    stage = demo()
    async with stage.life() as gateway:
        await stage.says("count to 4")
        await trio.sleep(2.5)
        gateway.stop(grace=0)
    stage = demo()
    async with stage.life():
        await trio.sleep(30)
        assert last(stage) == "Where was I? 4\nDone.", "it continues from its own text"


async def test_the_demo_runs_a_tool_and_shows_its_result(demo: OpenDemo) -> None:
    stage = demo(*TOOLS)
    async with stage.life() as gateway:
        await stage.says("run")
        await trio.sleep(30)
        assert "Running a process" in last(stage)
        assert "ran time.sleep(1)'" in last(stage)
        rows = await gateway.home.store.load_transcript(stage.entry().session_id)
        assert [row.role for row in rows] == ["user", "assistant", "tool", "assistant"]
        assert json.loads(rows[1].tool_calls[0].arguments).keys() == {"command"}


async def test_the_demo_asks_a_question_and_needs_an_approval(demo: OpenDemo) -> None:
    stage = demo(*TOOLS)
    async with stage.life():
        await stage.says("ask")
        await trio.sleep(1)
        assert "favourite colour?\n1. red\n2. green\n3. blue" in last(stage)
        await stage.says("3")
        await trio.sleep(5)
        texts = stage.platform.chat("42").texts
        assert any(text.endswith("You answered: blue") for text in texts)
        for answer, outcome in (("yes", "gone"), ("no", "You may not.")):
            await stage.says("danger")
            await trio.sleep(1)
            assert "rm -rf" in last(stage)
            await stage.says(answer)
            await trio.sleep(5)
            texts = stage.platform.chat("42").texts
            assert any(f"```\n{outcome}\n```" in text for text in texts)


async def test_the_demo_names_a_missing_tool(demo: OpenDemo) -> None:
    stage = demo()
    async with stage.life():
        for said, tool in (("run", "terminal"), ("ask", "clarify"), ("danger", "terminal")):
            await stage.says(said)
            await trio.sleep(5)
            assert f"I need the tool '{tool}'" in last(stage)


async def test_the_demo_has_nothing_to_compress(demo: OpenDemo) -> None:
    stage = demo()
    async with stage.life():
        await stage.says("x")
        await trio.sleep(5)
        await stage.says("/compress")
        await trio.sleep(5)
        assert last(stage) == texts.nothing_to_compress()


async def test_the_demo_resumes_with_all_messages_of_a_cut_turn(demo: OpenDemo) -> None:
    stage = demo()
    async with stage.life() as gateway:
        await stage.says("count to 2")
        await trio.sleep(0.5)
        gateway.stop(grace=10)
        await stage.says("one two three")  # these messages are answered in the next life
        await stage.says("four five six")
    stage = demo()
    async with stage.life() as gateway:
        await trio.sleep(0.2)
        gateway.stop(grace=0)
    stage = demo()
    async with stage.life():
        await trio.sleep(30)
        assert last(stage) == "Where was I? You said: one two three\nfour five six"
