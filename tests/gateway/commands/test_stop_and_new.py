"""/stop, /new and /restart: what they end, what they keep, and what they reply."""

from __future__ import annotations

import pytest
import trio

from hermes_trio.config.schema import AgentConfig
from hermes_trio.gateway.outbound import texts as words
from hermes_trio.testing import Script
from tests.stage import Stage, everyone, settled

NOTHING = words.stopped(was_running=False, dropped=0)
STOP = words.stopped(was_running=True, dropped=0)


async def test_stop_replies_first_drops_waiting_messages_and_keeps_the_session(stage: Stage) -> None:
    stage.config = everyone(busy="queue")
    stage.agent.on("work", Script().says("I begin.").hangs())
    async with stage.life():
        await stage.says("work")
        for said in ("two", "three"):
            await trio.sleep(2)
            await stage.says(said)
        before = stage.entry().session_id
        known = len(stage.platform.history)
        await stage.says("/stop")
        did = [(step.what, step.text) for step in stage.platform.history[known:]]
        did = [one for one in did if one[0] in ("send", "edit")]
        assert did == [
            ("send", words.stopped(was_running=True, dropped=2)),
            ("edit", "I begin.\n\n(interrupted)"),
        ]
        assert stage.pending() == []
        await trio.sleep(60)
        assert len(stage.turns()) == 1
        await stage.says("hello")
        assert stage.entry().session_id == before
        assert stage.platform.chat("42").last == "You said: hello"


async def test_stop_of_a_session_that_waits_for_its_resume_is_obeyed(stage: Stage) -> None:
    """A restart resumes a limited number of turns at a time; a session that still waits can be stopped."""
    for chat in "123456789":
        stage.agent.on(f"work {chat}", Script().takes(20).says("Done."))
    async with stage.life():
        for chat in "123456789":
            await stage.says(f"work {chat}", chat=chat)
    async with stage.life() as gateway:
        await settled()
        assert len(gateway.work.running) == 8
        [waits] = [chat for chat in "123456789" if len(stage.turns(chat)) == 1]
        await stage.says("/stop", chat=waits)
        assert stage.platform.chat(waits).last == STOP
        await trio.sleep(100)
        assert stage.outcomes(waits) == ["cut"]
        assert stage.entry(waits).mark is None
        await stage.says("hello", chat=waits)
        assert stage.platform.chat(waits).last == "You said: hello"


async def test_new_in_the_middle_of_a_turn_begins_a_session_and_drops_waiting_messages(stage: Stage) -> None:
    stage.config = everyone(busy="queue")
    stage.agent.on("work", Script().hangs())
    async with stage.life():
        await stage.says("work")
        await trio.sleep(5)
        await stage.says("two")
        before = stage.entry().session_id
        await stage.says("/new")
        assert stage.platform.chat("42").last == words.new_session(1)
        await stage.says("hello")
        assert stage.entry().session_id != before
        assert stage.transcript() == [("user", "hello"), ("assistant", "You said: hello")]
    async with stage.life():
        await trio.sleep(60)
        assert [said for said, _ in stage.agent.began] == ["work", "hello"]


@pytest.mark.parametrize("grace", [0.0, 30.0])
async def test_restart_promises_only_the_grace_that_is_configured(stage: Stage, grace: float) -> None:
    stage.config = everyone(AgentConfig(restart_drain_timeout=grace))
    stage.agent.on("work", Script().takes(10).says("Done."))
    async with stage.life():
        await stage.says("work", chat="1")
        await stage.says("/restart")
        await trio.sleep(60)
        assert stage.ended_at == min(grace, 10)
    said = stage.platform.chat("42").texts[0]
    assert said == (
        "♻ Restarting. 1 turn is running and may take 30 s to finish." if grace else "♻ Restarting."
    )
