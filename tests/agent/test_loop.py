"""The loop of the agent: tool calls of the model run, are shown and stored, and their results are sent
back."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hermes_trio.agent.loop import GO_ON, NO_MORE_TOOLS, NOTHING_YET
from hermes_trio.config.schema import (
    AgentConfig,
)
from hermes_trio.gateway.turn.context import TurnContext
from hermes_trio.state.tables.transcript import ToolCall
from hermes_trio.state.tables.turns import Outcome
from hermes_trio.testing.model_replies import Reply
from tests.agent.agent_scene import Provider, contents, open_scene
from tests.host.children.kinds import until
from tests.stage import KEY, Stage


@pytest.mark.parametrize("provider", ["openai", "anthropic"])
async def test_tool_calls_run_and_their_results_are_sent_to_the_model(
    tmp_path: Path, provider: Provider
) -> None:
    async with open_scene(tmp_path, provider=provider) as scene:
        scene.server.answers(
            Reply().says("I spell it.").calls("spell", {"word": "cat"}).finishes("tool_calls")
        )
        scene.server.answers(Reply().says("It is c-a-t.").uses(100, 7))
        shown = await scene.says("spell cat", until="It is")
        assert shown == "I spell it.\n\nIt is c-a-t."
        assert scene.bench.done == ["cat"]
        assert contents(await scene.rows()) == [
            ("user", "spell cat"),
            ("assistant", "I spell it."),
            ("tool", "c-a-t"),
            ("assistant", "It is c-a-t."),
        ]
        scene.server.answers(Reply().says("You asked me to spell cat."))
        await scene.says("what was that?", until="You asked")
        scene.check_requests()
        assert json.dumps(scene.server.requests[2].body).count("c-a-t") >= 1, "the history is sent"
        first, last = scene.server.requests[0].body, scene.server.requests[2].body
        assert first.get("system", first["messages"][0]) == last.get("system", last["messages"][0])
        entry = await scene.gateway.home.store.get_session_entry(KEY.format("42"))
        assert entry is not None
        assert entry.usage.output_tokens >= 7


async def test_results_of_concurrent_calls_keep_their_order(tmp_path: Path) -> None:
    async with open_scene(tmp_path) as scene:
        asks = Reply()
        for word in ("a", "b", "c", "a"):
            asks = asks.calls("look", {"word": word})
        scene.server.answers(asks.finishes("tool_calls"))
        scene.server.answers(Reply().says("Seen."))
        await scene.says("look around", until="Seen.")
        assert scene.bench.most_at_once == 3, "equal calls run once"
        results = [m["content"] for m in scene.server.requests[1].body["messages"] if m["role"] == "tool"]
        assert ["saw a" in results[0], "saw b" in results[1], "saw c" in results[2]] == [True] * 3
        assert "not made twice" in results[3]
        scene.check_requests()


async def test_no_failure_of_a_tool_ends_the_turn(tmp_path: Path) -> None:
    async with open_scene(tmp_path) as scene:
        for name, arguments in (
            ("fail", {"word": "fly"}),
            ("fail", {"word": "badly"}),
            ("dance", {}),
            ("spell", {}),
        ):
            scene.server.answers(Reply().calls(name, arguments).finishes("tool_calls"))
        scene.server.answers(Reply().says("So be it."))
        await scene.says("try", until="So be it.")
        tools = [row for row in await scene.rows() if row.role == "tool"]
        assert [row.status for row in tools] == ["error"] * 4
        assert tools[0].content == "I cannot fly."
        assert "RuntimeError: a mistake of ours" in tools[1].content
        assert "no tool 'dance'" in tools[2].content
        assert "word" in tools[3].content
        scene.check_requests()


async def test_a_model_that_only_calls_tools_is_made_to_answer(tmp_path: Path) -> None:
    async with open_scene(tmp_path, config=AgentConfig(max_turns=3)) as scene:
        for number in range(3):
            scene.server.answers(Reply().calls("spell", {"word": str(number)}).finishes("tool_calls"))
        scene.server.answers(Reply().says("This is how far I came."))
        await scene.says("spell for ever", until="how far")
        assert scene.bench.done == ["0", "1", "2"]
        assert scene.server.requests[-1].body["messages"][-1]["content"].endswith(NO_MORE_TOOLS)
        assert [asked.body.get("tool_choice") for asked in scene.server.requests] == [None] * 3 + ["none"]
        assert scene.server.requests[-1].body["tools"] == scene.server.requests[0].body["tools"]


async def test_an_answer_at_its_length_limit_is_continued(tmp_path: Path) -> None:
    async with open_scene(tmp_path) as scene:
        scene.server.answers(Reply().says("One, two, ").finishes("length"))
        scene.server.answers(Reply().says("three."))
        assert await scene.says("count", until="three") == "One, two, three."
        assert scene.server.requests[1].body["messages"][-1]["content"] == GO_ON
        assert contents(await scene.rows())[-1] == ("assistant", "One, two, three.")


@pytest.mark.parametrize("then", ["a call", "the end of its budget"])
async def test_text_before_a_length_limit_is_not_lost(tmp_path: Path, then: str) -> None:
    most = 1 if then == "the end of its budget" else 90
    async with open_scene(tmp_path, config=AgentConfig(max_turns=most)) as scene:
        scene.server.answers(Reply().says("One, two, ").finishes("length"))
        if then == "a call":
            scene.server.answers(Reply().says("three.").calls("spell", {"word": "cat"}))
        scene.server.answers(Reply().says("Four."))
        shown = await scene.says("count", until="Four.")
        said = " ".join(row.content for row in await scene.rows() if row.role == "assistant")
        assert said.split() == shown.split(), "the transcript has the shown text"
        assert said.startswith("One, two, ")


@pytest.mark.parametrize("provider", ["openai", "anthropic"])
async def test_malformed_calls_become_valid_requests(tmp_path: Path, provider: Provider) -> None:
    async with open_scene(tmp_path, provider=provider) as scene:
        asks = Reply().thinks("All at once.").calls("spell", '{"word": "c').calls("spell", {"word": "dog"})
        for name in ("multi_tool_use.parallel", "a tool", "t" * 100, ""):
            asks = asks.calls(name, {"word": "cat"})
        scene.server.answers(asks, Reply().says("I see."), Reply().says("Still here."))
        await scene.says("spell", until="I see.")
        await scene.says("and now?", until="Still here.")
        assert scene.bench.done == ["dog"]
        results = [row for row in await scene.rows() if row.role == "tool"]
        assert sorted(row.status or "" for row in results) == ["error"] * 5 + ["ok"]
        scene.check_requests()


async def test_a_model_with_an_empty_answer_is_asked_once_more(tmp_path: Path) -> None:
    async with open_scene(tmp_path) as scene:
        scene.server.answers(Reply().finishes("stop"))
        scene.server.answers(Reply().says("Here I am."))
        await scene.says("hello", until="Here I am.")
        assert scene.server.requests[1].body["messages"][-1]["content"].endswith(NOTHING_YET)


async def test_messages_during_a_turn_go_after_the_next_result(tmp_path: Path) -> None:
    async with open_scene(tmp_path, mode="steer") as scene:
        scene.server.answers(Reply().calls("wait", {"word": "you"}).finishes("tool_calls"))
        scene.server.answers(Reply().says("Blue it is."))
        await scene.platform.says("paint it")
        await until(lambda: scene.bench.done)
        await scene.platform.says("in blue")
        scene.bench.hold.set()
        await scene.shows("Blue it is.")
        assert scene.server.requests[1].body["messages"][-1] == {"role": "user", "content": "in blue"}
        assert contents(await scene.rows())[-2:] == [("user", "in blue"), ("assistant", "Blue it is.")]
        scene.check_requests()


@pytest.mark.parametrize("moment", ["it speaks", "its calls are stored"])
async def test_a_stop_during_a_write_loses_and_repeats_no_text(stage: Stage, moment: str) -> None:
    async def agent(turn: TurnContext) -> str:
        await turn.say("Let ")
        task = turn._handle
        assert task is not None
        if moment == "it speaks":
            task.end(Outcome.STOPPED)
        await turn.say("me see.")
        task.end(Outcome.STOPPED)
        await turn.calls("Let me see.", ToolCall("1", "look", "{}"))
        return "never"

    stage.agent = agent  # type: ignore[assignment]
    async with stage.life() as gateway:
        await stage.says("look")
        await gateway.chats.flushed()
        rows = await gateway.home.store.load_transcript(stage.entry().session_id)
        assert contents(rows) == [("user", "look"), ("assistant", "Let me see.")]


async def test_the_next_life_continues_from_the_transcript_of_a_cut_turn(tmp_path: Path) -> None:
    async with open_scene(tmp_path) as scene:
        scene.server.answers(Reply().says("I wait.").calls("wait", {"word": "you"}).finishes("tool_calls"))
        await scene.platform.says("wait for me")
        await until(lambda: scene.bench.done)
    async with open_scene(tmp_path) as scene:
        scene.server.answers(Reply().says("I was interrupted, and have looked."))
        await scene.shows("have looked")
        scene.check_requests()
        asked = json.dumps(scene.server.requests[0].body)
        assert "[System note:" in asked
        assert "not known" in asked, "the effect of the call is unknown"
        assert scene.bench.done == [], "the call did not run again by itself"
