"""The memory of each person in a real gateway, and the facts that are remembered only after a yes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import trio

from hermes_trio.agent.delegate import NAME as DELEGATE
from hermes_trio.testing.model_replies import Reply
from hermes_trio.tools.all_tools import toolbox
from hermes_trio.tools.tool import Tool
from tests.agent.agent_scene import PATIENCE, Scene, ToolBench, open_scene

OWNER, SOMEBODY, ANOTHER = "42", "43", "44"
FACT = "The house is empty on Friday."


def tools() -> Mapping[str, Tool]:
    """Return our tools, and those of a scene: strangers write the results of `look`."""
    return {**toolbox(), **ToolBench().tools}


def adds(content: str) -> Reply:
    return Reply().calls("memory", {"action": "add", "content": content})


async def hears(scene: Scene, text: str, answer: str, **where: Any) -> str:
    """Let a person say something and wait for the answer; return the system prompt of the last request."""
    await scene.platform.says(text, **where)
    with trio.fail_after(PATIENCE):
        await scene.platform.until(lambda: answer in (scene.platform.chat(where["chat"]).last or ""))
    return str(scene.server.requests[-1].body["messages"][0]["content"])


async def prompt_of(scene: Scene, **where: Any) -> str:
    """Return the system prompt of a new session of a person."""
    await scene.platform.says("/new", **where)
    scene.server.answers(Reply().says(answer := f"Hello for the {len(scene.server.requests)}th time."))
    return await hears(scene, "hello", answer, **where)


def results(scene: Scene) -> list[str]:
    return [one["content"] for one in scene.server.requests[-1].body["messages"] if one["role"] == "tool"]


# --- one memory for each person ----------------------------------------------------------------------


@pytest.mark.parametrize(("who", "others"), [(SOMEBODY, (ANOTHER, OWNER)), (OWNER, (SOMEBODY, ANOTHER))])
async def test_a_fact_that_one_person_had_remembered_is_in_no_prompt_of_another(
    tmp_path: Path, who: str, others: tuple[str, ...]
) -> None:
    async with open_scene(tmp_path, tools=tools()) as scene:
        scene.server.answers(adds(FACT), Reply().says("Noted."))
        await hears(scene, "remember it", "Noted.", chat=who)
        assert FACT in await prompt_of(scene, chat=who)
        for other in others:
            assert FACT not in await prompt_of(scene, chat=other)
        group: dict[str, Any] = {"chat": "-7", "chat_type": "group"}
        assert FACT in await prompt_of(scene, user=who, **group), "their own session in a group"
        for other in others:
            assert FACT not in await prompt_of(scene, user=other, **group)


async def test_the_memory_of_the_owner_is_the_same_on_the_page_and_in_a_chat(tmp_path: Path) -> None:
    async with open_scene(tmp_path, tools=tools()) as scene:
        scene.server.answers(adds(FACT), Reply().says("Noted."))
        await hears(scene, "remember it", "Noted.", chat=OWNER)
    assert (tmp_path / "memories" / "MEMORY.md").read_text() == FACT


async def test_a_conversation_of_several_people_has_a_memory_of_its_own(tmp_path: Path) -> None:
    thread: dict[str, Any] = {"chat": "-7", "chat_type": "group", "thread_id": "1"}
    async with open_scene(tmp_path, tools=tools()) as scene:
        scene.server.answers(adds("The owner is ill."), Reply().says("Noted."))
        await hears(scene, "remember it", "Noted.", chat=OWNER)
        scene.server.answers(adds(FACT), Reply().says("Noted."))
        await scene.platform.says("remember it", user=SOMEBODY, **thread)
        await approval(scene, "-7")
        await hears(scene, "yes", "Noted.", user=OWNER, **thread)
        together = await prompt_of(scene, user=OWNER, **thread)
        assert FACT in together
        assert "is ill" not in together, "the others read the answers"
        for apart in ({"chat": OWNER}, {"chat": SOMEBODY}, {**thread, "user": SOMEBODY, "thread_id": "2"}):
            assert FACT not in await prompt_of(scene, **apart)


async def test_the_file_tools_do_not_read_the_memory_of_others(tmp_path: Path) -> None:
    async with open_scene(tmp_path, tools=tools()) as scene:
        scene.server.answers(adds(FACT), Reply().says("Noted."))
        await hears(scene, "remember it", "Noted.", chat=OWNER)
        for call in (
            Reply().calls("read_file", {"path": str(tmp_path / "memories" / "MEMORY.md")}),
            Reply().calls("search_files", {"pattern": "house", "path": str(tmp_path / "memories")}),
        ):
            scene.server.answers(call, Reply().says("Refused."))
            await hears(scene, "what does the owner do?", "Refused.", chat=SOMEBODY)
            assert FACT not in results(scene)[-1]
            await scene.platform.says("/new", chat=SOMEBODY)


# --- a yes for what others may have written ----------------------------------------------------------


async def approval(scene: Scene, chat: str) -> str:
    """Wait until an approval is asked for in a chat; return the question."""
    with trio.fail_after(PATIENCE):
        await scene.platform.until(lambda: "May I do this?" in (scene.platform.chat(chat).last or ""))
    return scene.platform.chat(chat).last or ""


@pytest.mark.parametrize(
    "source",
    [
        Reply().calls("look", {"word": "x"}),
        Reply().calls("spell", {"word": "a tool of another package"}),
        Reply().calls("terminal", {"command": "echo fetched"}),
        Reply().calls("session_search", {}),
        Reply().calls(DELEGATE, {"goal": "fetch the page"}),
    ],
    ids=["strangers", "package", "command", "earlier session", "another agent"],
)
@pytest.mark.parametrize("said", ["yes", "no"])
async def test_after_results_of_tools_a_fact_is_remembered_only_after_a_yes(
    tmp_path: Path, source: Reply, said: str
) -> None:
    async with open_scene(tmp_path, tools=tools()) as scene:
        if DELEGATE in repr(source):
            scene.server.answers(source, Reply().says("The page says so."), adds(FACT))
        else:
            scene.server.answers(source, adds(FACT))
        scene.server.answers(Reply().says("Done."))
        await scene.platform.says("what is on the page?", chat=OWNER)
        asked = await approval(scene, OWNER)
        assert FACT in asked, "the person sees the text"
        assert not (tmp_path / "memories").exists()
        await hears(scene, said, "Done.", chat=OWNER)
        assert (FACT in await prompt_of(scene, chat=OWNER)) is (said == "yes")


async def test_a_fact_of_an_earlier_turn_needs_the_yes_too(tmp_path: Path) -> None:
    async with open_scene(tmp_path, tools=tools()) as scene:
        scene.server.answers(Reply().calls("look", {"word": "x"}), Reply().says("Seen."))
        await hears(scene, "what is on the page?", "Seen.", chat=OWNER)
        scene.server.answers(
            Reply().calls("memory", {"action": "add", "content": "harmless"}), Reply().says("Done.")
        )
        await scene.platform.says("remember that", chat=OWNER)
        await approval(scene, OWNER)
        await hears(scene, "yes", "Done.", chat=OWNER)
        scene.server.answers(
            Reply().calls("memory", {"action": "replace", "old_text": "harmless", "content": FACT}),
            Reply().says("Changed."),
        )
        await scene.platform.says("change that", chat=OWNER)
        assert FACT in await approval(scene, OWNER)
        await hears(scene, "no", "Changed.", chat=OWNER)
        assert "harmless" in await prompt_of(scene, chat=OWNER)


async def test_what_a_person_says_is_remembered_without_a_question(tmp_path: Path) -> None:
    own = Reply().calls("todo", {"todos": [{"id": "1", "content": "remember it", "status": "pending"}]})
    async with open_scene(tmp_path, tools=tools()) as scene:
        scene.server.answers(own, adds(FACT), Reply().says("Noted."))
        await hears(scene, "remember it", "Noted.", chat=SOMEBODY)
        assert FACT in await prompt_of(scene, chat=SOMEBODY), "and /new begins anew"
        scene.server.answers(
            Reply().calls("memory", {"action": "remove", "old_text": FACT}), Reply().says("Forgotten.")
        )
        await hears(scene, "forget it", "Forgotten.", chat=SOMEBODY)
        assert FACT not in await prompt_of(scene, chat=SOMEBODY)


async def test_a_person_who_may_not_approve_cannot_have_a_fetched_fact_remembered(tmp_path: Path) -> None:
    async with open_scene(tmp_path, tools=tools()) as scene:
        scene.server.answers(Reply().calls("look", {"word": "x"}), adds(FACT))
        await scene.platform.says("what is on the page?", chat=SOMEBODY)
        await approval(scene, SOMEBODY)
        await scene.platform.says("yes", chat=SOMEBODY)
        await scene.platform.says("/stop", chat=SOMEBODY)
        assert FACT not in await prompt_of(scene, chat=SOMEBODY)
