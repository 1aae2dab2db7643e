"""Kills during a stop, several in a row, and the service beside a resumed turn."""

from __future__ import annotations

import shutil

import pytest
import trio

from hermes_trio.gateway.outbound import texts
from hermes_trio.testing import Script
from tests.stage import Stage

# The files of a home are copied at the moment of a kill.
pytestmark = pytest.mark.sqlite


async def killed_while_it_drains(stage: Stage, said: str | None = None, *, drops: bool = False) -> None:
    """Run a life that is killed during its stop, and set the home of the stage to the copy of its files. With
    `drops` its link is lost before that, and comes back."""
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


async def test_three_kills_during_the_drain_suspend_the_session_with_a_notice(stage: Stage) -> None:
    """See invariant 6."""
    stage.agent.on("hang", Script().says("I begin.").hangs())
    for life in range(3):
        await killed_while_it_drains(stage, "hang" if life == 0 else None)
        assert len(stage.agent.began) == life + 1
    for _ in range(2):
        async with stage.life():
            await trio.sleep(5)
            texts = stage.platform.chat("42").texts
            assert sum("several times in a row" in text for text in texts) == 1
    assert len(stage.agent.began) == 3, "the turn does not begin a fourth time"
    assert stage.entry().suspended


@pytest.mark.parametrize("before_asking", [0, 1000])
@pytest.mark.parametrize("drops", [False, True])
@pytest.mark.parametrize("down", [0, 2 * 3600])
async def test_a_person_is_told_once_that_a_killed_resume_is_not_repeated(
    stage: Stage, before_asking: float, down: float, *, drops: bool
) -> None:
    """The same holds if the gateway stays down until the mark is stale."""
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
                assert stage.platform.chat("42").texts.count(texts.not_resumed()) == 1
                stage.platform.drop()
                await trio.sleep(100)
            assert len(stage.agent.began) == 2, "a turn has one automatic run"
    stage.agent.on("hang", Script().says("Here you are."))
    async with stage.life():
        await stage.says("/retry")
        await trio.sleep(5)
        assert stage.platform.chat("42").texts[-1] == "Here you are."


async def test_other_chats_are_served_beside_a_resumed_turn_and_stop_ends_it_at_once(stage: Stage) -> None:
    """See invariant 8."""
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
