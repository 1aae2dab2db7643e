"""/background: a turn beside the conversation, its resume after a cut, and /stop all."""

from __future__ import annotations

from typing import Any

import pytest
import trio

from hermes_trio.gateway.outbound import texts as words
from hermes_trio.testing import Script
from tests.stage import Stage, settled

NOTHING = words.stopped(was_running=False, dropped=0)


async def test_a_background_turn_runs_beside_the_conversation(stage: Stage) -> None:
    stage.agent.on("report", Script().takes(20).says("The report."))
    async with stage.life():
        await stage.says("/background report", thread_id="7")
        await stage.says("hello", thread_id="7")
        await trio.sleep(5)
        assert stage.platform.chat("42").texts == [words.works_in_background(), "You said: hello"]
        await stage.says("/status", thread_id="7")
        assert "In the background: 1 turn is running" in (stage.platform.chat("42").last or "")
        await trio.sleep(60)
        assert [(m.text, m.thread_id) for m in stage.platform.chat("42").messages[-1:]] == [
            ("The report.", "7")
        ]


async def test_a_cut_background_turn_is_resumed(stage: Stage) -> None:
    stage.agent.on("report", Script().says("It begins.").hangs())
    async with stage.life():
        await stage.says("/background report")
        await trio.sleep(5)
    stage.agent.on("report", Script().says("The report."))
    async with stage.life():
        await trio.sleep(5)
        assert stage.platform.chat("42").last == "The report."


@pytest.mark.parametrize("state", ["running", "waiting", "cut"])
async def test_stop_all_ends_the_background_turns_of_this_conversation_only(stage: Stage, state: str) -> None:
    group: dict[str, Any] = {"chat": "g", "chat_type": "group"}
    for who in "12":
        stage.agent.on(f"report {who}", Script().takes(20).says(f"The report for {who}."))

    async def begin() -> None:
        for who in "12":
            await stage.says(f"/background report {who}", user=who, **group)

    async def stop_all(reply: str) -> None:
        await stage.says("/stop", user="1", **group)
        assert stage.platform.chat("g").last == NOTHING
        await stage.says("/stop all", user="1", **group)
        assert stage.platform.chat("g").last == reply

    if state == "cut":
        async with stage.life():
            await begin()
    async with stage.life() as gateway:
        gateway.control.hold(state != "running")
        await settled()
        if state != "cut":
            await begin()
        await stop_all(words.stopped(state != "waiting", dropped=state == "waiting"))
        gateway.control.hold(False)
        await trio.sleep(60)
        texts = stage.platform.chat("g").texts
        assert "The report for 1." not in texts
        assert texts[-1] == "The report for 2."
