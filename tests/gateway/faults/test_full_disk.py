"""The disk takes no more for a while: what is said is not accepted, what ends is kept until it can be stored,
and when there is room everything goes on, once."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio

from hermes_trio.gateway.facade import Gateway
from hermes_trio.testing import Script
from tests.stage import Stage


@asynccontextmanager
async def taking_no_writes(gateway: Gateway) -> AsyncIterator[None]:
    """The database refuses every write in here, as on a disk that has gone read-only."""

    connection = await gateway.home.database.write(_refuse_all)
    try:
        yield
    finally:
        connection.execute("PRAGMA query_only = 0")


def _refuse_all(db: sqlite3.Connection) -> sqlite3.Connection:
    db.execute("PRAGMA query_only = 1")
    return db


async def test_what_cannot_be_stored_is_not_accepted_and_comes_again(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    async with stage.life() as gateway:
        async with taking_no_writes(gateway):
            stage.platform.post("hello")
            await trio.sleep(100)
            assert stage.platform.chat("42").texts == []
        told = [text for text in caplog.messages if "platform event not stored" in text]
        assert len(told) == 1, "whoever reads the log hears of it"
        assert "readonly" in told[0], "and why"
        assert "link lost" not in caplog.text, "the platform has not failed"
        await trio.sleep(2)
        assert stage.platform.chat("42").texts == ["You said: hello"]
        assert len(stage.turns()) == 1


@pytest.mark.parametrize("seconds", [3, 100, 3600])
async def test_after_a_full_disk_a_link_hears_at_once_however_long_it_was_full(
    stage: Stage, seconds: float
) -> None:
    async with stage.life() as gateway:
        async with taking_no_writes(gateway):
            for number in range(3):
                stage.platform.post(f"hello {number}", chat=str(number))
            await trio.sleep(seconds)
            status = gateway.home.board.status
            assert status.gateway_state == "degraded"
            assert "readonly" in (status.platforms["memory"].error or "")
        began = trio.current_time()
        await stage.platform.until(lambda: stage.platform.chat("2").texts != [])
        assert trio.current_time() - began <= 1
        assert [op.what for op in stage.platform.history].count("connect") == 1
        assert gateway.home.board.status.gateway_state == "running"


async def test_a_link_that_comes_up_while_the_disk_is_full_stays_up_and_takes_up_what_waits(
    stage: Stage,
) -> None:
    stage.agent.on("hang", Script().says("I begin.").hangs())
    async with stage.life():
        await stage.says("hang")
        await trio.sleep(5)
    stage.agent.on("hang", Script().says("All done."))
    stage.platform.hangs("connect", 10)
    async with stage.life() as gateway:
        async with taking_no_writes(gateway):
            await trio.sleep(1000)
            stage.platform.post("hello", chat="43")
        await trio.sleep(60)
        assert stage.platform.chat("42").texts[-1] == "All done."
        assert stage.platform.chat("43").texts == ["You said: hello"]
        assert [op.what for op in stage.platform.history].count("connect") == 2


async def test_an_answer_waits_for_the_disk_and_is_given_once(stage: Stage) -> None:
    stage.agent.on("work", Script().takes(20).says("Done."))
    async with stage.life() as gateway:
        await stage.says("work")
        async with taking_no_writes(gateway):
            await trio.sleep(100)
            assert "Done." not in stage.platform.chat("42").texts
        await trio.sleep(100)
        assert stage.platform.chat("42").texts == ["Done."]
        assert [turn.outcome for turn in stage.turns()] == ["answered"]
        await stage.says("hello")
        await trio.sleep(10)
        assert stage.platform.chat("42").last == "You said: hello"


async def test_a_stop_does_not_wait_for_the_disk_and_a_finished_answer_is_not_made_twice(
    stage: Stage,
) -> None:
    stage.agent.on("work", Script().takes(20).says("Done."))
    async with stage.life() as gateway:
        await stage.says("work")
        async with taking_no_writes(gateway):
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
        async with taking_no_writes(gateway):
            await trio.sleep(100)
            stage.platform.post("/help")
        await trio.sleep(100)
        assert stage.platform.chat("42").texts.count("Done.") == 1
        assert [op.what for op in stage.platform.history].count("send") <= 3
    async with stage.life():
        await trio.sleep(100)
        assert stage.platform.chat("42").texts.count("Done.") == 1, "its receipt was stored in the end"


async def test_a_disk_that_takes_nothing_does_not_keep_the_gateway(stage: Stage) -> None:
    stage.agent.on("hang", Script().hangs())
    async with stage.life() as gateway:
        await stage.says("hang")
        await gateway.home.database.write(_refuse_all)
        gateway.stop(grace=10)
        await trio.sleep(60)
        assert stage.ended_at is not None
        assert stage.ended_at <= 15
    async with stage.life():
        await trio.sleep(1)
        assert stage.turns()[0].outcome == "cut"
