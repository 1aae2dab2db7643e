"""Kills in the middle of a stop, one after the other, and what goes on beside a turn taken up again."""

from __future__ import annotations

import shutil

import pytest
import trio

from hermes_trio.gateway.outbound import texts as words
from hermes_trio.testing import Script
from tests.stage import Stage


async def killed_while_it_drains(stage: Stage, said: str | None = None, *, drops: bool = False) -> None:
    """A life that is killed in the middle of its stop; `stage` is then at the home it left. In front of that
    its link may be lost, and come back."""
    left = stage.home.with_name(stage.home.name + "+")
    async with stage.life() as gateway:
        if said is not None:
            await stage.says(said)
        await trio.sleep(5)
        if drops:
            stage.platform.drop()
            await trio.sleep(100)
        gateway.stop(grace=10)
        await trio.sleep(1)
        shutil.copytree(stage.home, left)
        stage.platform.drop()
    stage.home = left


async def test_three_kills_while_it_drains_suspend_the_session_and_its_person_is_told(stage: Stage) -> None:
    """Invariant 6."""
    stage.agent.on("hang", Script().says("I begin.").hangs())
    for life in range(3):
        await killed_while_it_drains(stage, "hang" if life == 0 else None)
        assert len(stage.agent.began) == life + 1
    for _ in range(2):
        async with stage.life():
            await trio.sleep(5)
            texts = stage.platform.chat("42").texts
            assert sum("several times in a row" in text for text in texts) == 1
    assert len(stage.agent.began) == 3, "it is not taken up a fourth time"
    assert stage.entry().suspended


@pytest.mark.parametrize("before_asking", [0, 1000])
@pytest.mark.parametrize("drops", [False, True])
@pytest.mark.parametrize("down", [0, 2 * 3600])
async def test_who_is_not_answered_because_the_resume_was_killed_too_is_told_once(
    stage: Stage, before_asking: float, down: float, *, drops: bool
) -> None:
    """Also if the gateway stays down for so long that the mark has become stale."""
    stage.agent.on("hang", Script().hangs())
    await killed_while_it_drains(stage, "hang")
    stage.agent.before_asking = before_asking
    await killed_while_it_drains(stage, drops=drops)
    assert len(stage.agent.began) == 2
    await trio.sleep(down)
    stage.agent.before_asking = 0
    for _ in range(2):
        async with stage.life():
            for _ in range(2):
                await trio.sleep(5)
                assert stage.platform.chat("42").texts.count(words.left_alone()) == 1
                stage.platform.drop()
                await trio.sleep(100)
            assert len(stage.agent.began) == 2, "it has had its one automatic run"
    stage.agent.on("hang", Script().says("Here you are."))
    async with stage.life():
        await stage.says("/retry")
        await trio.sleep(5)
        assert stage.platform.chat("42").texts[-1] == "Here you are."


async def test_beside_a_turn_that_is_taken_up_others_are_served_and_stop_works_at_once(stage: Stage) -> None:
    """Invariant 8."""
    stage.agent.on("hang", Script().says("I begin.").hangs())
    await killed_while_it_drains(stage, "hang")
    async with stage.life():
        await trio.sleep(5)
        await stage.says("hello", chat="43")
        await trio.sleep(1)
        assert stage.platform.chat("43").texts == ["You said: hello"]
        began = trio.current_time()
        await stage.says("/stop")
        assert stage.agent.left[-1] == ("hang", "cancelled", began)
    assert [turn.outcome for turn in stage.turns()] == ["cut", "stopped"]
    async with stage.life():
        await trio.sleep(5)
        assert len(stage.turns()) == 2
