"""Delegation of a task to another agent: it works outside of the conversation, ends with the turn, and only
its report gets into the transcript."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import trio

from hermes_trio.agent.delegate import LONGEST_REPORT
from hermes_trio.testing.model_replies import Reply
from hermes_trio.testing.model_server import RecordedRequest
from tests.agent.agent_scene import Scene, contents, open_scene
from tests.host.children.kinds import until
from tests.stage import KEY


def delegates(*goals: str) -> Reply:
    reply = Reply()
    for goal in goals:
        reply = reply.calls("delegate_task", {"goal": goal, "context": "It is raining."})
    return reply


def tools_of(body: Any) -> list[str]:
    return [tool["function"]["name"] for tool in body["tools"]]


async def test_a_delegated_task_returns_only_its_report(tmp_path: Path) -> None:
    async with open_scene(tmp_path) as scene:
        scene.server.answers(delegates("Spell cat.").uses(100, 1))
        scene.server.answers(Reply().says("I spell.").calls("spell", {"word": "cat"}).uses(20, 2))
        scene.server.answers(Reply().says("The word is c-a-t.").uses(30, 3))
        scene.server.answers(Reply().says("They say c-a-t.").uses(200, 4))
        assert await scene.says("let it be spelled", until="They say") == "They say c-a-t."
        scene.check_requests()
        assert contents(await scene.rows()) == [
            ("user", "let it be spelled"),
            ("assistant", ""),
            ("tool", "The word is c-a-t."),
            ("assistant", "They say c-a-t."),
        ]
        first, theirs, _, last = (asked.body for asked in scene.server.requests)
        assert [m["role"] for m in theirs["messages"]] == ["system", "user"]
        assert theirs["messages"][1]["content"] == "Spell cat.\n\nIt is raining."
        assert theirs["messages"][0] != first["messages"][0]
        assert set(tools_of(first)) - set(tools_of(theirs)) == {"delegate_task"}
        assert "I spell." not in json.dumps(last), "the text on the way is not part of the report"
        entry = await scene.gateway.home.store.get_session_entry(KEY.format("42"))
        assert entry is not None
        assert entry.usage.output_tokens == 10
        assert entry.usage.last_prompt_tokens == 200, "the prompt length of this conversation"
        shown = [(event["event"], event["tool"]) for event in await events(scene) if "tool" in event]
        assert shown == [
            ("tool.started", "delegate_task"),
            ("tool.started", "spell"),
            ("tool.completed", "spell"),
            ("tool.completed", "delegate_task"),
        ]


async def events(scene: Scene) -> list[dict[str, Any]]:
    """Return the events in the journals of the session."""
    entry = await scene.gateway.home.store.get_session_entry(KEY.format("42"))
    assert entry is not None
    found = []
    for file in sorted((scene.gateway.home.path / "journal" / entry.session_id).iterdir()):
        for line in file.read_text().splitlines():
            record = json.loads(line)
            found.append({**record.get("payload", {}), "event": record["event"]})
    return found


async def test_delegated_tasks_run_concurrently_up_to_a_limit(tmp_path: Path) -> None:
    def other_agent(asked: RecordedRequest) -> Reply:
        if asked.body["messages"][-1]["role"] == "tool":
            return Reply().says(f"Done: {asked.body['messages'][1]['content'][:6]}")
        return Reply().calls("wait", {"word": asked.body["messages"][1]["content"][:6]})

    async with open_scene(tmp_path) as scene:
        scene.server.answers(delegates(*(f"Goal {n}" for n in range(5))))
        scene.server.otherwise = lambda asked: (
            Reply().says("All done.") if "delegate_task" in tools_of(asked.body) else other_agent(asked)
        )
        await scene.platform.says("do it all")
        await until(lambda: len(scene.bench.done) == 3)
        await trio.sleep(0.2)
        assert len(scene.bench.done) == 3
        scene.bench.hold.set()
        await scene.shows("All done.")
        results = [row.content for row in await scene.rows() if row.role == "tool"]
        assert sorted(results) == [f"Done: Goal {n}" for n in range(5)]
        last = scene.server.requests[-1].body["messages"]
        assert [m["content"] for m in last if m["role"] == "tool"] == [f"Done: Goal {n}" for n in range(5)]
        scene.check_requests()


async def test_a_delegated_task_ends_with_the_turn(tmp_path: Path) -> None:
    async with open_scene(tmp_path) as scene:
        scene.server.answers(delegates("Wait."), Reply().calls("wait", {"word": "a"}))
        await scene.platform.says("begin")
        await until(lambda: scene.bench.done)
        await scene.platform.says("/stop")
        await until(lambda: not scene.gateway.work.running)
        asked = len(scene.server.requests)
        scene.bench.hold.set()
        await trio.sleep(0.1)
        assert len(scene.server.requests) == asked


async def test_the_next_life_is_told_the_calls_of_a_cut_task(tmp_path: Path) -> None:
    async with open_scene(tmp_path) as scene:
        # Small servers reuse the same call ids in each answer.
        scene.server.answers(Reply().calls("delegate_task", {"goal": "Spell, then wait."}, id="call_0"))
        scene.server.answers(Reply().calls("spell", {"word": "dog"}, id="call_0"))
        scene.server.answers(Reply().calls("wait", {"word": "a"}, id="call_0"))
        await scene.platform.says("begin")
        await until(lambda: len(scene.bench.done) == 2)
    async with open_scene(tmp_path) as scene:
        scene.server.answers(Reply().says("I have looked."))
        await scene.shows("I have looked.")
        scene.check_requests()
        asked = json.dumps(scene.server.requests[0].body["messages"])
        assert "not known" in asked, "the result of the task"
        assert "d-o-g" in asked, "the calls that were seen"
        assert scene.bench.done == []


async def test_a_failure_of_a_delegated_task_is_a_result(tmp_path: Path) -> None:
    async with open_scene(tmp_path) as scene:
        scene.server.answers(delegates("Say much."), Reply().says("x" * (LONGEST_REPORT + 1)))
        scene.server.answers(delegates("Say nothing."), Reply(), Reply())
        scene.server.answers(delegates("Break."), Reply().says("half").breaks())
        scene.server.answers(Reply().says("So be it."))
        await scene.says("try", until="So be it.")
        results = [row for row in await scene.rows() if row.role == "tool"]
        assert [row.status for row in results] == ["ok", "error", "error"]
        assert len(results[0].content) == LONGEST_REPORT
        assert "without a report" in results[1].content
        assert "delegate_task failed" in results[2].content
