"""The limit of running turns: messages, commands, resumed turns and a stop while a turn waits for its
place."""

from __future__ import annotations

import msgspec
import pytest
import trio

from hermes_trio.config.schema import TurnLimits
from hermes_trio.gateway.outbound import texts as words
from hermes_trio.testing import Script
from tests.stage import Busy, Stage, everyone


def limited(stage: Stage, most: int, mode: Busy = "queue") -> None:
    stage.config = msgspec.structs.replace(everyone(busy=mode), gateway=TurnLimits(max_running_turns=most))


# --- how many turns may run ----------------------------------------------------------------------------


async def test_who_waits_for_room_is_told_and_comes_in_order(real_stage: Stage) -> None:
    limited(real_stage, 1)
    for chat in "1234":
        real_stage.agent.on(f"work {chat}", Script().takes(10).says("Done."))
    async with real_stage.life():
        for chat in "1234":
            await real_stage.says(f"work {chat}", chat=chat)
            await trio.sleep(1)
        assert [real_stage.platform.chat(chat).texts for chat in "1234"] == [[]] + [
            [words.waits_for_room(1)]
        ] * 3
        await real_stage.says("and more", chat="2")
        await trio.sleep(60)
        assert real_stage.agent.began == [
            ("work 1", 0.0),
            ("work 2", 10.0),
            ("work 3", 20.0),
            ("work 4", 30.0),
            ("and more", 40.0),
        ]
        assert real_stage.platform.chat("2").texts.count(words.waits_for_room(1)) == 1, "told once"


@pytest.mark.parametrize("grace", [0, 5, 60])
async def test_a_stop_does_not_hang_on_who_waits_for_room(real_stage: Stage, grace: float) -> None:
    limited(real_stage, 1)
    real_stage.agent.on("work", Script().takes(20).says("Done."))
    async with real_stage.life() as gateway:
        await real_stage.says("work", chat="1")
        await real_stage.says("hello", chat="2")
        await real_stage.says("hello", chat="3")
        gateway.stop(grace=grace)
        await trio.sleep(100)
        assert real_stage.ended_at == min(grace, 20)
    for chat in "23":
        assert real_stage.pending(chat) == ["hello"]
    async with real_stage.life():
        await trio.sleep(60)
        for chat in "23":
            assert real_stage.platform.chat(chat).last == "You said: hello"


async def test_a_turn_that_is_taken_up_needs_room_too(real_stage: Stage) -> None:
    for chat in "123":
        real_stage.agent.on(f"work {chat}", Script().takes(10).says("Done."))
    async with real_stage.life():
        for chat in "123":
            await real_stage.says(f"work {chat}", chat=chat)
    limited(real_stage, 2)
    async with real_stage.life() as gateway:
        most = 0
        for _ in range(100):
            await trio.sleep(0.5)
            most = max(most, len(gateway.work.running))
        assert most == 2
        assert [real_stage.platform.chat(chat).last for chat in "123"] == ["Done."] * 3


async def test_stop_new_undo_and_retry_of_somebody_who_waits_for_room(real_stage: Stage) -> None:
    limited(real_stage, 1)
    real_stage.agent.on("work", Script().takes(20).says("Done."))
    async with real_stage.life():
        await real_stage.says("work", chat="1")
        for chat, command in (("2", "/stop"), ("3", "/new"), ("4", "/undo"), ("5", "/retry")):
            await real_stage.says("hello", chat=chat)
            await real_stage.says(command, chat=chat)
        assert [real_stage.platform.chat(chat).last for chat in "2345"] == [
            words.stopped(was_running=False, dropped=1),
            words.new_session(1),
            words.taken_back("hello"),
            words.waits_still(),
        ]
        await trio.sleep(60)
        assert [said for said, _ in real_stage.agent.began] == ["work", "hello"]
        assert real_stage.platform.chat("5").last == "You said: hello"
        for chat in "234":
            await real_stage.says("good morning", chat=chat)
            assert real_stage.platform.chat(chat).last == "You said: good morning"


# --- what waits for its place --------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["interrupt", "queue", "steer"])
async def test_a_message_that_comes_while_a_resume_waits_for_its_place_comes_after_it(
    real_stage: Stage, mode: Busy
) -> None:
    real_stage.config = msgspec.structs.replace(everyone(busy=mode), gateway=TurnLimits(resume_at_once=1))
    for said in ("one", "two"):
        real_stage.agent.on(said, Script().says("I begin. ").hangs())
    async with real_stage.life():
        await real_stage.says("one", chat="41")
        await real_stage.says("two")
        await trio.sleep(5)
    real_stage.agent.on("one", Script().takes(10).says("One is done."))
    real_stage.agent.on("two", Script().takes(10).says("Two is done."))
    async with real_stage.life():
        await trio.sleep(5)
        await real_stage.says("and then")
        await trio.sleep(60)
        assert real_stage.outcomes() == ["cut", "answered", "answered"]
        texts = real_stage.platform.chat("42").texts
        assert texts.index("Two is done.") < texts.index("You said: and then")
        assert real_stage.pending() == []


@pytest.mark.parametrize("held", [False, True])
async def test_no_turn_begins_that_gets_its_place_after_the_sessions_are_closed(
    real_stage: Stage, *, held: bool
) -> None:
    limited(real_stage, 1)
    real_stage.agent.on("work", Script().takes(20).says("Done."))
    async with real_stage.life() as gateway:
        await real_stage.says("work", chat="41")
        await real_stage.says("hello")
        await trio.sleep(10)
        if held:
            gateway.control.hold(True)
        else:
            gateway.stop(grace=100)
        await trio.sleep(15)
        assert real_stage.platform.chat("41").texts[-1] == "Done."
        assert [said for said, _ in real_stage.agent.began] == ["work"]
        assert real_stage.pending() == ["hello"]
        if held:
            gateway.control.hold(False)
        else:
            assert real_stage.ended_at == 20, "nobody waits for a turn that does not begin"
    async with real_stage.life():
        await trio.sleep(5)
        assert real_stage.platform.chat("42").last == "You said: hello"
        assert real_stage.outcomes() == ["answered"]
