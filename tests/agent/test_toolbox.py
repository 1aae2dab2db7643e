"""The built-in tools in a real gateway, called by a scripted model."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import trio

from hermes_trio.agent.delegate import NAME
from hermes_trio.config.schema import AgentConfig, TerminalConfig
from hermes_trio.testing.model_replies import Reply, refused
from hermes_trio.tools.all_tools import TOOLSETS, toolbox
from hermes_trio.tools.builtin.clarify import NOBODY
from tests.agent.agent_scene import Provider, Scene, open_scene


def results(scene: Scene, request: int = -1) -> list[str]:
    """Return the results of tools in a request to the model."""
    messages = scene.server.requests[request].body["messages"]
    return [message["content"] for message in messages if message["role"] == "tool"]


@pytest.mark.parametrize("provider", ["openai", "anthropic"])
async def test_the_tools_are_valid_for_both_wire_formats(tmp_path: Path, provider: Provider) -> None:
    async with open_scene(tmp_path, provider=provider, tools=toolbox()) as scene:
        scene.server.answers(Reply().says("Hello."))
        await scene.says("hello", until="Hello.")
        scene.check_requests()
        tools = json.dumps(scene.server.requests[0].body["tools"])
        for name in ("read_file", "write_file", "patch", "search_files", "web_fetch", "clarify", "todo"):
            assert f'"{name}"' in tools
        for name in ("memory", "session_search", "delegate_task"):
            assert f'"{name}"' in tools
        assert len(tools) < 20_000, "every request carries the descriptions"


async def test_a_disabled_toolset_is_neither_offered_nor_run(tmp_path: Path) -> None:
    config = AgentConfig(disabled_toolsets=("terminal", "delegation", "browser"))
    async with open_scene(tmp_path, config=config, tools=toolbox()) as scene:
        scene.server.answers(Reply().calls("terminal", {"command": f"touch {tmp_path}/made"}))
        scene.server.answers(Reply().says("It cannot be done."))
        await scene.says("hello", until="It cannot be done.")
        offered = {tool["function"]["name"] for tool in scene.server.requests[0].body["tools"]}
        assert offered == toolbox().keys() - {"terminal", "process"}
        assert "terminal" in results(scene)[0]
    assert not (tmp_path / "made").exists()


def test_every_toolset_names_existing_tools() -> None:
    names = {*toolbox(), NAME}
    assert set().union(*TOOLSETS.values()) == names


async def test_a_refusal_is_one_short_line_in_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    async with open_scene(tmp_path, config=AgentConfig(api_max_retries=0)) as scene:
        scene.server.otherwise = refused("openai", 429, "rate_limit_error", "Slowly", retry_after="500")
        await scene.says("hello", until="too many requests")
    [line] = [record.getMessage() for record in caplog.records if "agent failed" in record.getMessage()]
    assert "too many requests" in line
    assert "Traceback" not in line
    assert "\n" not in line
    assert len(line) < 700
    assert not any(record.exc_info and record.exc_info[0] for record in caplog.records)


async def test_files_are_written_read_changed_and_found(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    path = str(tmp_path / "work/deep/a.txt")
    terminal = TerminalConfig(cwd=str(tmp_path / "work"))
    async with open_scene(tmp_path / "home", tools=toolbox(), terminal=terminal) as scene:
        edits = [{"old_string": "two", "new_string": "2"}]
        scene.server.answers(
            Reply()
            .calls("read_file", {"path": path})
            .calls("write_file", {"path": path, "content": "one\ntwo\n"})
            .calls("read_file", {"path": path})
            .calls("patch", {"path": path, "edits": edits})
            .calls("search_files", {"pattern": "2", "path": str(tmp_path / "work")})
        )
        scene.server.answers(Reply().says("It is done."))
        await scene.says("write", until="It is done.")
        missing, _, read, diff, found = results(scene)
        assert "There is no" in missing
        assert read == "1|one\n2|two"
        assert "-two\n+2" in diff
        assert found == "deep/a.txt:2:2"
        scene.check_requests()


async def test_a_question_is_asked_in_the_chat_and_answered_there(tmp_path: Path) -> None:
    async with open_scene(tmp_path, tools=toolbox()) as scene:
        scene.server.answers(Reply().calls("clarify", {"question": "Which?", "choices": ["red", "green"]}))
        scene.server.answers(Reply().says("Green it is."))
        await scene.platform.says("paint it")
        with trio.fail_after(30):
            await scene.platform.until(lambda: "Which?" in (scene.platform.chat("42").last or ""))
        await scene.platform.says("2")
        await scene.shows("Green it is.")
        assert results(scene) == ["green"]


async def test_a_question_that_a_restart_cut_waits_for_the_person(tmp_path: Path) -> None:
    async with open_scene(tmp_path, tools=toolbox()) as scene:
        scene.server.answers(Reply().calls("clarify", {"question": "Which?"}))
        await scene.platform.says("paint it")
        with trio.fail_after(30):
            await scene.platform.until(lambda: "Which?" in (scene.platform.chat("42").last or ""))
    async with open_scene(tmp_path, tools=toolbox()) as scene:
        await trio.sleep(0.5)
        assert scene.server.requests == [], "the model is not asked before the person answers"
        scene.server.answers(Reply().says("Blue it is."))
        await scene.platform.says("blue", message_id="later")
        await scene.shows("Blue it is.")
        scene.check_requests()
        assert NOBODY not in results(scene)


async def test_the_memory_is_known_from_the_next_session_on(tmp_path: Path) -> None:
    async with open_scene(tmp_path, tools=toolbox()) as scene:
        fact = {"action": "add", "target": "user", "content": "Kim likes short answers."}
        scene.server.answers(Reply().calls("memory", fact), Reply().says("Noted."))
        await scene.says("remember", until="Noted.")
        systems = [asked.body["messages"][0] for asked in scene.server.requests]
        assert systems[0] == systems[1], "a session keeps its prompt"
        assert "Kim likes" not in json.dumps(systems[0])
        await scene.platform.says("/new")
        scene.server.answers(Reply().says("Hi, Kim."))
        await scene.says("hello", until="Hi, Kim.")
        assert "Kim likes short answers." in scene.server.requests[-1].body["messages"][0]["content"]


async def test_the_todo_list_survives_a_restart(tmp_path: Path) -> None:
    async with open_scene(tmp_path, tools=toolbox()) as scene:
        scene.server.answers(Reply().calls("todo", {"todos": [{"id": "a", "content": "Paint it."}]}))
        scene.server.answers(Reply().says("Listed."))
        await scene.says("plan", until="Listed.")
    async with open_scene(tmp_path, tools=toolbox()) as scene:
        scene.server.answers(Reply().calls("todo"), Reply().says("One thing."))
        await scene.platform.says("what is left?", message_id="later")
        await scene.shows("One thing.")
        assert results(scene)[-1].startswith("[ ] a: Paint it.")
