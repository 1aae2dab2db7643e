"""A flood wait holds the whole chat: nothing is sent, edited or shown as typing there, whichever call was
refused, and other chats go on. Afterwards everything is sent in order."""

from __future__ import annotations

from itertools import pairwise

import pytest
import trio

from hermes_trio.gateway.outbound import texts
from hermes_trio.platform.contract import FloodWait, Traits
from hermes_trio.testing import MemoryPlatform, Script
from tests.stage import Stage

SENT = ("send", "edit")


@pytest.fixture
def stage(stage: Stage) -> Stage:
    stage.platform = MemoryPlatform(traits=Traits(edits=True, typing=True))
    return stage


def calls(stage: Stage, *, chat: str = "42", what: tuple[str, ...] = SENT) -> list[tuple[float, str]]:
    """Return the time and the text of each call to the platform for this chat."""
    history = stage.platform.history
    return [(one.at, one.text or "") for one in history if one.what in what and one.chat_id == chat]


async def test_a_refused_first_message_makes_the_answer_wait_too(stage: Stage) -> None:
    stage.agent.on("work", Script().says("I begin.").takes(1).says(" Done."))
    stage.platform.fails("send", FloodWait(3))
    async with stage.life():
        await stage.says("work")
        await trio.sleep(10)
        assert calls(stage) == [(0, "I begin."), (3, "I begin. Done.")]
        assert stage.platform.chat("42").texts == ["I begin. Done."]


async def test_a_refused_edit_makes_the_last_edit_wait_too(stage: Stage) -> None:
    stage.agent.on("work", Script().says("One").takes(1).says(" two").takes(1).says(" three."))
    stage.platform.fails("edit", FloodWait(5))
    async with stage.life():
        await stage.says("work")
        await trio.sleep(20)
        cursor = stage.config.streaming.cursor
        refused_at = 0.8
        assert calls(stage) == [
            (0, "One"),
            (refused_at, f"One{cursor}"),
            (refused_at + 5, "One two three."),
        ]


async def test_a_refused_row_makes_notices_wait_without_losing_them(stage: Stage) -> None:
    stage.platform.fails("send", FloodWait(30))
    async with stage.life():
        await stage.says("hello")
        await trio.sleep(10)
        await stage.says("/sethome")
        await trio.sleep(50)
        asked = calls(stage)
        assert [at for at, _ in asked] == [0, 30, 30]
        assert sorted(text for _, text in asked[1:]) == sorted([texts.home_channel_set(), "You said: hello"])


async def test_a_refused_notice_is_sent_after_the_wait(stage: Stage) -> None:
    stage.platform.fails("send", FloodWait(3))
    async with stage.life():
        await stage.says("/sethome")
        await trio.sleep(1)
        await stage.says("hello")
        await trio.sleep(9)
        assert calls(stage) == [
            (0, texts.home_channel_set()),
            (3, texts.home_channel_set()),
            (3, "You said: hello"),
        ]


async def test_a_second_flood_after_the_first_holds_again(stage: Stage) -> None:
    stage.platform.fails("send", FloodWait(3))
    stage.platform.fails("send", FloodWait(0.5))
    async with stage.life():
        await stage.says("hello")
        await trio.sleep(10)
        assert [at for at, _ in calls(stage)] == [0, 3, 3.5]


async def test_a_flood_wait_does_not_hold_another_chat(stage: Stage) -> None:
    stage.platform.fails("send", FloodWait(30), chat="42")
    async with stage.life():
        await stage.says("hello")
        await stage.says("hello", chat="43")
        await trio.sleep(60)
        assert {at for at, _ in calls(stage)} == {0, 30}
        assert {at for at, _ in calls(stage, chat="43")} == {0}
        assert stage.platform.chat("43").texts == ["You said: hello"]


async def test_a_lost_link_does_not_end_the_flood_wait(stage: Stage) -> None:
    stage.platform.fails("send", FloodWait(600))
    async with stage.life():
        await stage.says("hello")
        await trio.sleep(10)
        stage.platform.drop()
        await trio.sleep(990)
        assert [at for at, _ in calls(stage)] == [0, 600]


async def test_typing_is_not_shown_in_the_wait_and_a_flood_of_typing_holds_the_chat(stage: Stage) -> None:
    stage.agent.on("work", Script().takes(5).says("Done."))
    stage.platform.fails("typing", FloodWait(7))
    async with stage.life():
        await stage.says("work")
        await trio.sleep(20)
        assert calls(stage, what=("typing",)) == [(0, "")]
        assert [at for at, _ in calls(stage)] == [7]
        stage.platform.fails("send", FloodWait(3))
        stage.agent.on("again", Script().says("I begin.").takes(7).says(" Done."))
        await stage.says("again")
        await trio.sleep(20)
        typing = [at for at, _ in calls(stage, what=("typing",))][1:]
        assert [at - 20 for at in typing if at > 20] == [4, 6], "no typing at 22, within the wait"


async def test_a_streamed_message_is_edited_at_half_the_pace_after_a_flood_wait(stage: Stage) -> None:
    """Deltas come eight times a second; an edit goes every 0.8 s, and every 1.6 s after a flood wait."""
    stage.agent.on("work", Script().says("word " * 80, pieces=80, seconds=20))
    async with stage.life():
        await stage.says("work")
        await trio.sleep(4.1)
        stage.platform.fails("edit", FloodWait(3))
        await trio.sleep(30)
    times = [at for at, _ in calls(stage)]
    steps = [round(after - before, 3) for before, after in pairwise(times)]
    refused = steps.index(3.0)
    assert set(steps[:refused]) == {0.8}
    assert set(steps[refused + 1 : -1]) == {1.6}
    assert len(steps) - refused > 5


async def test_a_stop_sends_nothing_within_a_flood_wait_and_does_not_wait_for_it(stage: Stage) -> None:
    stage.agent.on("work", Script().says("I begin.").hangs())
    async with stage.life() as gateway:
        await stage.says("work")
        await trio.sleep(5)
        stage.platform.fails("edit", FloodWait(600))
        stage.platform.fails("send", FloodWait(600))
        before = len(calls(stage))
        gateway.stop(grace=1)
        await trio.sleep(60)
        assert stage.ended_at == 6
        assert len(calls(stage)) == before + 1, "the notice was refused, and nothing was sent after it"
    async with stage.life():
        await trio.sleep(10)
        assert len(stage.platform.chat("42").texts) > 0, "the next life sends the owed rows"
