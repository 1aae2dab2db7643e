"""A disk that is full for a while: no message is accepted, ends of turns wait in memory, and everything goes
on once when there is room."""

from __future__ import annotations

import re

import pytest
import trio

from hermes_trio.testing import Script
from tests.disk import full_disk
from tests.stage import Stage

REASON = re.compile("readonly|read-only")
"""In the words of each engine."""


async def test_a_message_that_cannot_be_stored_is_not_accepted_and_comes_again(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    async with stage.life() as gateway:
        async with full_disk(gateway.home.database):
            stage.platform.post("hello")
            await trio.sleep(100)
            assert stage.platform.chat("42").texts == []
        told = [text for text in caplog.messages if "platform event not stored" in text]
        assert len(told) == 1, "the problem is logged once"
        assert REASON.search(told[0]), "the log has the reason"
        assert "link lost" not in caplog.text, "the link is not blamed"
        await trio.sleep(2)
        assert stage.platform.chat("42").texts == ["You said: hello"]
        assert len(stage.turns()) == 1


@pytest.mark.parametrize("seconds", [3, 100, 3600])
async def test_a_link_receives_again_at_once_after_any_time_of_a_full_disk(
    stage: Stage, seconds: float
) -> None:
    async with stage.life() as gateway:
        async with full_disk(gateway.home.database):
            for number in range(3):
                stage.platform.post(f"hello {number}", chat=str(number))
            await trio.sleep(seconds)
            status = gateway.home.board.status
            assert status.gateway_state == "degraded"
            assert REASON.search(status.platforms["memory"].error or "")
        began = trio.current_time()
        await stage.platform.until(lambda: stage.platform.chat("2").texts != [])
        assert trio.current_time() - began <= 1
        assert [op.what for op in stage.platform.history].count("connect") == 1
        assert gateway.home.board.status.gateway_state == "running"


async def test_a_link_that_connects_on_a_full_disk_stays_up_and_resumes_later(
    stage: Stage,
) -> None:
    stage.agent.on("hang", Script().says("I begin.").hangs())
    async with stage.life():
        await stage.says("hang")
        await trio.sleep(5)
    stage.agent.on("hang", Script().says("All done."))
    stage.platform.hangs("connect", 10)
    async with stage.life() as gateway:
        async with full_disk(gateway.home.database):
            await trio.sleep(1000)
            stage.platform.post("hello", chat="43")
        await trio.sleep(60)
        assert stage.platform.chat("42").texts[-1] == "All done."
        assert stage.platform.chat("43").texts == ["You said: hello"]
        assert [op.what for op in stage.platform.history].count("connect") == 2


async def test_an_answer_waits_for_the_disk_and_is_sent_once(stage: Stage) -> None:
    stage.agent.on("work", Script().takes(20).says("Done."))
    async with stage.life() as gateway:
        await stage.says("work")
        async with full_disk(gateway.home.database):
            await trio.sleep(100)
            assert "Done." not in stage.platform.chat("42").texts
        await trio.sleep(100)
        assert stage.platform.chat("42").texts == ["Done."]
        assert [turn.outcome for turn in stage.turns()] == ["answered"]
        await stage.says("hello")
        await trio.sleep(10)
        assert stage.platform.chat("42").last == "You said: hello"


async def test_a_stop_does_not_wait_for_the_disk_and_a_finished_turn_is_not_repeated(
    stage: Stage,
) -> None:
    stage.agent.on("work", Script().takes(20).says("Done."))
    async with stage.life() as gateway:
        await stage.says("work")
        async with full_disk(gateway.home.database):
            await trio.sleep(100)
            gateway.stop(grace=50)
            await trio.sleep(49)
        await trio.sleep(60)
        assert stage.ended_at is not None
        assert stage.ended_at <= 155
    assert [turn.outcome for turn in stage.turns()] == ["answered"]
    assert stage.platform.chat("42").texts.count("Done.") == 1


async def test_a_delivery_waits_for_the_disk(stage: Stage) -> None:
    stage.platform.hangs("send", 10)
    stage.agent.on("work", Script().returns("Done."))
    async with stage.life() as gateway:
        await stage.says("work")
        await trio.sleep(5)
        async with full_disk(gateway.home.database):
            await trio.sleep(100)
            stage.platform.post("/help")
        await trio.sleep(100)
        assert stage.platform.chat("42").texts.count("Done.") == 1
        assert [op.what for op in stage.platform.history].count("send") <= 3
    async with stage.life():
        await trio.sleep(100)
        assert stage.platform.chat("42").texts.count("Done.") == 1, (
            "its receipt is stored, so it is not sent again"
        )


async def test_a_stop_ends_in_time_on_a_full_disk(stage: Stage) -> None:
    stage.agent.on("hang", Script().hangs())
    async with stage.life() as gateway:
        await stage.says("hang")
        async with full_disk(gateway.home.database):
            gateway.stop(grace=10)
            await trio.sleep(60)
        assert stage.ended_at is not None
        assert stage.ended_at <= 15
    async with stage.life():
        await trio.sleep(1)
        assert stage.turns()[0].outcome == "cut"
