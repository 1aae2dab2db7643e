"""A message, its turn and its answer, with every way in which a turn can end."""

from __future__ import annotations

import msgspec
import trio

from hermes_trio.base.messages import HomeChannel
from hermes_trio.config.schema import AgentConfig, SessionReset
from hermes_trio.testing import Script
from tests.stage import Stage, everyone, settled


async def test_a_message_is_answered_once_and_its_turn_ends_completely(stage: Stage) -> None:
    stage.agent.on("hello", Script().says("Hello there.", pieces=4, seconds=2))
    async with stage.life():
        await stage.says("hello")
        await trio.sleep(10)
        chat = stage.platform.chat("42")
        assert chat.texts == ["Hello there."]
        assert max(chat.typing_at) <= 2, "typing ends with the turn"
        [turn] = stage.turns()
        assert turn.outcome == "answered"
        assert stage.pending() == []


async def test_a_stop_ends_with_the_last_turn(stage: Stage) -> None:
    stage.agent.on("work", Script().takes(3).says("Done."))
    async with stage.life() as gateway:
        await stage.says("work")
        gateway.stop(grace=10)
        await trio.sleep(60)
        assert stage.ended_at == 3
    assert stage.platform.chat("42").last == "Done."
    assert [turn.outcome for turn in stage.turns()] == ["answered"]
    assert stage.entry().mark is None


async def test_a_stop_without_turns_ends_at_once(stage: Stage) -> None:
    async with stage.life() as gateway:
        await stage.says("hello")
        await trio.sleep(20)
        gateway.stop(grace=100)
        await settled()
        assert stage.ended_at == 20


async def test_hanging_turns_are_cut_at_the_end_of_the_grace(stage: Stage) -> None:
    for chat in ("1", "2", "3"):
        stage.agent.on(f"hang {chat}", Script().says("I begin.").hangs())
    async with stage.life() as gateway:
        for chat in ("1", "2", "3"):
            await stage.says(f"hang {chat}", chat=chat)
        await trio.sleep(5)
        gateway.stop(grace=10)
        await trio.sleep(60)
        assert stage.ended_at == 15
    for chat in ("1", "2", "3"):
        assert stage.entry(chat).resume_reason == "shutdown_timeout"
        [turn] = stage.turns(chat)
        assert (turn.outcome, turn.reason) == ("cut", "shutdown_timeout")
        first, notice = stage.platform.chat(chat).texts
        assert first == "I begin.\n\n(interrupted)", "the streamed message shows no cursor"
        assert "shutting down" in notice


async def test_a_cut_turn_is_resumed_by_the_next_life_and_answered_once(stage: Stage) -> None:
    stage.agent.on("hang", Script().says("I begin.").hangs())
    async with stage.life():
        await stage.says("hang")
        await trio.sleep(5)
    stage.agent.on("hang", Script().says("All done."))
    async with stage.life():
        await trio.sleep(5)
        assert stage.platform.chat("42").last == "All done."
        cut, resumed = stage.turns()
        assert (cut.outcome, resumed.outcome, resumed.resumes) == ("cut", "answered", cut.turn_id)
        assert stage.entry().mark is None
        assert "[System note:" in stage.agent.prompts[-1]
    async with stage.life():
        await trio.sleep(5)
        assert len(stage.turns()) == 2, "an answered turn never runs again"


async def test_a_message_during_the_drain_gets_a_notice_and_is_answered_by_the_next_life(
    stage: Stage,
) -> None:
    stage.agent.on("work", Script().takes(8).says("Done."))
    async with stage.life() as gateway:
        await stage.says("work")
        gateway.stop(grace=10)
        await trio.sleep(1)
        await stage.says("and another thing")
        await trio.sleep(2)
        await stage.says("and one more")
        await trio.sleep(60)
        assert stage.ended_at == 8
    texts = stage.platform.chat("42").texts
    assert sum("comes when it is back" in text for text in texts) == 1, "one notice"
    assert stage.pending() == ["and another thing", "and one more"]
    async with stage.life():
        await trio.sleep(5)
        assert stage.platform.chat("42").texts[-2:] == [
            "You said: and another thing",
            "You said: and one more",
        ]


async def test_a_second_signal_ends_the_grace(stage: Stage) -> None:
    stage.agent.on("hang", Script().hangs())
    async with stage.life() as gateway:
        await stage.says("hang")
        gateway.stop(grace=600)
        await trio.sleep(7)
        gateway.control.hurry()
        await trio.sleep(60)
        assert stage.ended_at == 7
    assert stage.entry().resume_pending


async def test_a_stop_during_a_restart_replaces_it(stage: Stage) -> None:
    stage.agent.on("hang", Script().says("I begin.").hangs())
    async with stage.life() as gateway:
        await stage.says("hang")
        gateway.stop(restart=True, grace=30)
        await trio.sleep(4)
        gateway.stop(grace=10)
        await trio.sleep(60)
        assert stage.ended_at == 10
    assert stage.entry().resume_reason == "shutdown_timeout"


async def test_a_turn_ended_by_stop_keeps_its_session_and_is_not_resumed(stage: Stage) -> None:
    stage.agent.on("hang", Script().says("I begin.").hangs())
    async with stage.life():
        await stage.says("hang")
        await trio.sleep(5)
        await stage.says("/stop")
        await trio.sleep(5)
        assert [turn.outcome for turn in stage.turns()] == ["stopped"]
        assert stage.platform.chat("42").texts[0] == "I begin.\n\n(interrupted)"
        before = stage.entry().session_id
    async with stage.life():
        await trio.sleep(5)
        assert len(stage.turns()) == 1
        await stage.says("go on")
        await trio.sleep(5)
        assert stage.entry().session_id == before


async def test_an_exception_of_the_agent_is_told_and_the_next_message_is_answered(stage: Stage) -> None:
    stage.agent.on("break", Script().says("Let me").raises(ValueError("no such file")))
    async with stage.life():
        await stage.says("break")
        await trio.sleep(1)
        assert "no such file" in (stage.platform.chat("42").last or "")
        await stage.says("hello")
        await trio.sleep(1)
        assert stage.platform.chat("42").last == "You said: hello"
        assert [turn.outcome for turn in stage.turns()] == ["failed", "answered"]


async def test_an_inactive_turn_is_ended_after_a_warning(stage: Stage) -> None:
    stage.config = everyone(
        AgentConfig(gateway_timeout=100, gateway_timeout_warning=60, gateway_notify_interval=0)
    )
    stage.agent.on("hang", Script().takes(50).says("Still here.").hangs())
    async with stage.life():
        await stage.says("hang")
        await trio.sleep(149)
        texts = stage.platform.chat("42").texts
        assert sum("Nothing has happened" in text for text in texts) == 1
        assert stage.agent.left == []
        await trio.sleep(2)
        assert stage.agent.left == [("hang", "cancelled", 150.0)]
        assert [turn.outcome for turn in stage.turns()] == ["timed_out"]
        assert "agent.gateway_timeout" in (stage.platform.chat("42").texts[0])


async def test_still_working_is_one_message_with_a_final_edit(stage: Stage) -> None:
    stage.config = everyone(AgentConfig(gateway_notify_interval=180))
    stage.agent.on("work", Script().takes(600).says("Done."))
    async with stage.life():
        await stage.says("work")
        await trio.sleep(179)
        assert stage.platform.chat("42").texts == []
        await trio.sleep(300)
        assert stage.platform.chat("42").texts == ["⏳ Still working (6 min)."]
        await trio.sleep(300)
        assert stage.platform.chat("42").texts == ["⏳ Worked for 10 min.", "Done."]


async def test_a_session_cut_in_three_lives_in_a_row_is_suspended_and_its_person_told_once(
    stage: Stage,
) -> None:
    stage.agent.on("hang", Script().says("I begin.").hangs())
    for life in range(3):
        async with stage.life():
            if life == 0:
                await stage.says("hang")
            await trio.sleep(5)
    before = stage.entry().session_id
    for told in (1, 1):
        async with stage.life():
            await trio.sleep(5)
            texts = stage.platform.chat("42").texts
            assert sum("several times in a row" in text for text in texts) == told
    assert len(stage.agent.began) == 3, "the turn does not begin a fourth time"
    async with stage.life():
        await stage.says("hello")
        await trio.sleep(5)
        assert stage.entry().session_id != before


async def test_the_home_channel_is_told_of_the_return_after_a_restart_from_outside(
    stage: Stage,
) -> None:
    stage.allow(home_channel=HomeChannel("memory", "home"))
    async with stage.life() as gateway:
        gateway.stop(restart=True)
    for _ in range(2):
        async with stage.life():
            await trio.sleep(5)
    assert sum("back and ready" in text for text in stage.platform.chat("home").texts) == 1


async def test_a_chat_that_asked_for_a_restart_is_told_of_the_return_once(stage: Stage) -> None:
    async with stage.life():
        await stage.says("/restart", message_id="asked")
    for _ in range(2):
        async with stage.life():
            await trio.sleep(5)
    told = [m for m in stage.platform.chat("42").messages if m.text.startswith("♻ Restarted")]
    assert [m.reply_to for m in told] == ["asked"]


async def test_an_idle_reset_is_told_once(stage: Stage) -> None:
    idle = SessionReset(mode="idle", idle_minutes=60)
    stage.config = msgspec.structs.replace(stage.config, session_reset=idle)
    async with stage.life():
        await stage.says("hello")
        await trio.sleep(2 * 3600)
        before = stage.entry().session_id
        await stage.says("are you there?")
        await trio.sleep(10)
        await stage.says("fine")
        await trio.sleep(10)
        assert stage.entry().session_id != before
        first, notice, *rest = stage.platform.chat("42").texts
        assert first == "You said: hello"
        assert "new session (no message for 1 hour)" in notice
        assert rest == ["You said: are you there?", "You said: fine"]
        assert "[System note:" in stage.agent.prompts[1]
        assert stage.agent.prompts[2] == "fine"
