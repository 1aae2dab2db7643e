"""The stage of the tests: it brings its clock, and its real counterpart does not."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from tests.stage import Stage


@pytest.fixture
def rich_stage(stage: Stage) -> Stage:
    return stage


async def test_a_stage_brings_the_virtual_clock_and_the_time_of_day_goes_with_it(stage: Stage) -> None:
    before = stage.world.time()
    async with stage.life():
        await trio.sleep(86400)
    assert trio.current_time() == 86400
    assert stage.world.time() - before == 86400


async def test_a_fixture_that_takes_a_stage_brings_its_clock(rich_stage: Stage) -> None:
    await trio.sleep(86400)
    assert trio.current_time() == 86400


async def test_a_named_clock_is_the_clock_of_the_stage(stage: Stage, autojump_clock: MockClock) -> None:
    autojump_clock.jump(86400)
    assert trio.current_time() == 86400


async def test_a_real_stage_has_the_real_clock(real_stage: Stage) -> None:
    before = trio.current_time()
    await trio.sleep(0.01)
    assert 0.01 <= trio.current_time() - before < 60
