"""A gateway embedded in another program that is cancelled around it."""

from __future__ import annotations

from functools import partial

import pytest
import trio

from hermes_trio.embed.embedding import open_gateway, serve
from hermes_trio.host.loop.worker import inline_worker
from tests.gateway.stopping.trouble import BEGINS, EVERYTHING, Trouble, answered_by_the_next_life
from tests.stage import Stage, no_guard


@pytest.mark.parametrize("asked", [None, "stop", "restart"])
async def test_a_cancelled_gateway_in_which_everything_hangs_ends_in_five_seconds(
    stage: Stage, asked: str | None
) -> None:
    trouble = Trouble(stage, EVERYTHING)
    body_left_at = None
    with trio.move_on_after(20) as outer:
        async with (
            trio.open_nursery() as nursery,
            open_gateway(
                stage.home,
                stage.config,
                agent=trouble.agent(),
                adapters=[stage.platform],
                world=stage.world,
                worker=stage.worker,
                guarded=no_guard,
            ) as gateway,
        ):
            try:
                await stage.says("hang")
                nursery.start_soon(trouble.begins, 10)
                await trio.sleep_until(12)
                if asked:
                    gateway.stop(restart=asked == "restart", grace=600)
                await trio.sleep_forever()
            finally:
                body_left_at = trio.current_time()
    assert outer.cancelled_caught
    assert body_left_at == 20
    assert trio.current_time() <= 25
    await answered_by_the_next_life(stage)


async def test_a_cancel_ends_the_grace_of_an_earlier_stop(stage: Stage) -> None:
    stage.agent.on("hang", BEGINS.hangs())
    async with trio.open_nursery() as nursery:
        gateway = await nursery.start(
            partial(
                serve,
                stage.home,
                stage.config,
                agent=stage.agent,
                adapters=[stage.platform],
                world=stage.world,
                worker=inline_worker,
                guarded=no_guard,
            )
        )
        await stage.says("hang")
        gateway.stop(grace=600)
        await trio.sleep_until(5)
        nursery.cancel_scope.cancel()
    assert trio.current_time() == 5
    assert stage.entry().resume_reason == "shutdown_timeout"
    assert stage.platform.chat("42").texts[0] == "I begin.\n\n(interrupted)"
