"""The report of a stop: the end of each phase, and the turns that it waited for."""

from __future__ import annotations

import msgspec
import trio

from hermes_trio.gateway.ending.report import Report
from hermes_trio.testing import Script
from tests.stage import KEY, Stage


async def test_a_stop_leaves_a_report_of_its_phases_and_turns(stage: Stage) -> None:
    stage.agent.on("short", Script().takes(3).says("Done."))
    stage.agent.on("hang", Script().hangs())
    async with stage.life() as gateway:
        await stage.says("short", chat="1")
        await stage.says("hang", chat="2")
        gateway.stop(grace=10, asked_by="the story")
        await trio.sleep(60)
    ending = stage.ending()
    assert ending.finished_at == ending.recorded_at + 10
    report = msgspec.json.decode(ending.report or "", type=Report)
    assert report.turns == 2
    assert report.last_turns == {KEY.format("1"): 3000, KEY.format("2"): 10000}
    assert report.phases == {
        "recorded": 0,
        "work": 10000,
        "background": 10000,
        "flush": 10000,
        "links": 10000,
    }


async def test_the_report_names_the_last_of_many_turns(stage: Stage) -> None:
    for n in range(30):
        stage.agent.on(f"work {n}", Script().takes(1 + n).says("Done."))
    async with stage.life() as gateway:
        for n in range(30):
            await stage.says(f"work {n}", chat=str(n))
        gateway.stop(grace=100)
        await trio.sleep(200)
    report = msgspec.json.decode(stage.ending().report or "", type=Report)
    assert report.turns == 30
    assert list(report.last_turns) == [KEY.format(n) for n in range(10, 30)]
