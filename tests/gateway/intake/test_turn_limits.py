"""The limit of running turns: messages, commands, resumed turns and a stop while a turn waits for its
place."""

from __future__ import annotations

import msgspec
import pytest
import trio

from hermes_trio.config.schema import TurnLimits
from hermes_trio.gateway.outbound import texts
from hermes_trio.testing import Script
from tests.stage import Busy, Stage, everyone


def limited(stage: Stage, most: int, mode: Busy = "queue") -> None:
    stage.config = msgspec.structs.replace(everyone(busy=mode), gateway=TurnLimits(max_running_turns=most))


async def test_turns_over_the_limit_get_a_notice_and_begin_in_order(stage: Stage) -> None:
    limited(stage, 1)
    for chat in "1234":
        stage.agent.on(f"work {chat}", Script().takes(10).says("Done."))
    async with stage.life():
        for chat in "1234":
            await stage.says(f"work {chat}", chat=chat)
            await trio.sleep(1)
        assert [stage.platform.chat(chat).texts for chat in "1234"] == [[]] + [[texts.waits_for_room(1)]] * 3
        await stage.says("and more", chat="2")
        await trio.sleep(60)
        assert stage.agent.began == [
            ("work 1", 0.0),
            ("work 2", 10.0),
            ("work 3", 20.0),
            ("work 4", 30.0),
            ("and more", 40.0),
        ]
        assert stage.platform.chat("2").texts.count(texts.waits_for_room(1)) == 1, "one notice per wait"


@pytest.mark.parametrize("grace", [0, 5, 60])
async def test_a_stop_does_not_wait_for_turns_over_the_limit(stage: Stage, grace: float) -> None:
    limited(stage, 1)
    stage.agent.on("work", Script().takes(20).says("Done."))
    async with stage.life() as gateway:
        await stage.says("work", chat="1")
        await stage.says("hello", chat="2")
        await stage.says("hello", chat="3")
        gateway.stop(grace=grace)
        await trio.sleep(100)
        assert stage.ended_at == min(grace, 20)
    for chat in "23":
        assert stage.pending(chat) == ["hello"]
    async with stage.life():
        await trio.sleep(60)
        for chat in "23":
            assert stage.platform.chat(chat).last == "You said: hello"


async def test_resumed_turns_count_against_the_limit(stage: Stage) -> None:
    for chat in "123":
        stage.agent.on(f"work {chat}", Script().takes(10).says("Done."))
    async with stage.life():
        for chat in "123":
            await stage.says(f"work {chat}", chat=chat)
    limited(stage, 2)
    async with stage.life() as gateway:
        most = 0
        for _ in range(100):
            await trio.sleep(0.5)
            most = max(most, len(gateway.work.running))
        assert most == 2
        assert [stage.platform.chat(chat).last for chat in "123"] == ["Done."] * 3


async def test_stop_new_undo_and_retry_act_on_a_turn_over_the_limit(stage: Stage) -> None:
    limited(stage, 1)
    stage.agent.on("work", Script().takes(20).says("Done."))
    async with stage.life():
        await stage.says("work", chat="1")
        for chat, command in (("2", "/stop"), ("3", "/new"), ("4", "/undo"), ("5", "/retry")):
            await stage.says("hello", chat=chat)
            await stage.says(command, chat=chat)
        assert [stage.platform.chat(chat).last for chat in "2345"] == [
            texts.stopped(was_running=False, dropped=1),
            texts.new_session(1),
            texts.taken_back("hello"),
            texts.still_waits(),
        ]
        await trio.sleep(60)
        assert [said for said, _ in stage.agent.began] == ["work", "hello"]
        assert stage.platform.chat("5").last == "You said: hello"
        for chat in "234":
            await stage.says("good morning", chat=chat)
            assert stage.platform.chat(chat).last == "You said: good morning"


@pytest.mark.parametrize("mode", ["interrupt", "queue", "steer"])
async def test_a_message_is_answered_after_a_resume_that_waits_for_its_place(
    stage: Stage, mode: Busy
) -> None:
    stage.config = msgspec.structs.replace(everyone(busy=mode), gateway=TurnLimits(resume_at_once=1))
    for said in ("one", "two"):
        stage.agent.on(said, Script().says("I begin. ").hangs())
    async with stage.life():
        await stage.says("one", chat="41")
        await stage.says("two")
        await trio.sleep(5)
    stage.agent.on("one", Script().takes(10).says("One is done."))
    stage.agent.on("two", Script().takes(10).says("Two is done."))
    async with stage.life():
        await trio.sleep(5)
        await stage.says("and then")
        await trio.sleep(60)
        assert stage.outcomes() == ["cut", "answered", "answered"]
        texts = stage.platform.chat("42").texts
        assert texts.index("Two is done.") < texts.index("You said: and then")
        assert stage.pending() == []


@pytest.mark.parametrize("held", [False, True])
async def test_a_turn_that_gets_its_place_after_the_sessions_are_closed_does_not_begin(
    stage: Stage, *, held: bool
) -> None:
    limited(stage, 1)
    stage.agent.on("work", Script().takes(20).says("Done."))
    async with stage.life() as gateway:
        await stage.says("work", chat="41")
        await stage.says("hello")
        await trio.sleep(10)
        if held:
            gateway.control.hold(True)
        else:
            gateway.stop(grace=100)
        await trio.sleep(15)
        assert stage.platform.chat("41").texts[-1] == "Done."
        assert [said for said, _ in stage.agent.began] == ["work"]
        assert stage.pending() == ["hello"]
        if held:
            gateway.control.hold(False)
        else:
            assert stage.ended_at == 20, "the stop does not wait for a turn that has not begun"
    async with stage.life():
        await trio.sleep(5)
        assert stage.platform.chat("42").last == "You said: hello"
        assert stage.outcomes() == ["answered"]
