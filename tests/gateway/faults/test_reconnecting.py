"""Pauses before a lost link is connected again: they grow while the link does not hold."""

from __future__ import annotations

import trio

from tests.stage import Stage


def pauses(stage: Stage) -> list[float]:
    """Return the seconds between each end of a link and the next attempt."""
    ends = [one.at for one in stage.platform.history if one.what == "disconnect"]
    attempts = [one.at for one in stage.platform.history if one.what == "connect"]
    return [begun - ended for ended, begun in zip(ends, attempts[1:], strict=False)]


async def test_the_pauses_of_a_link_that_does_not_hold_grow(stage: Stage) -> None:
    async with stage.life():
        for _ in range(7):
            await stage.platform.until(lambda: stage.platform.connected)
            await trio.sleep(5)
            stage.platform.drop()
        await stage.platform.until(lambda: stage.platform.connected)
    assert pauses(stage) == [30, 60, 120, 240, 300, 300, 300]


async def test_a_link_that_has_held_is_connected_after_the_first_pause(stage: Stage) -> None:
    async with stage.life():
        for held in (5, 5, 5, 119, 300):
            await stage.platform.until(lambda: stage.platform.connected)
            await trio.sleep(held)
            stage.platform.drop()
        await stage.platform.until(lambda: stage.platform.connected)
    assert pauses(stage) == [30, 60, 120, 240, 30]
