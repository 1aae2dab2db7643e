"""A message that comes when the gateway is all but gone: it is stored for the next life, and the stop is a
stop."""

from __future__ import annotations

import pytest
import trio
import trio.lowlevel
import trio.testing

from hermes_trio.gateway.facade import Gateway
from hermes_trio.gateway.serve import Setup, serve
from hermes_trio.host.home.state_file import read_status
from tests.stage import Stage

MOMENTS = 30
"""So many steps of the loop are tried, one after the other: far more than a stop without work takes."""
SAID = ["hello", "/queue hello", "/status", "/new"]


def ended_well(stage: Stage) -> None:
    status = read_status(stage.home)
    assert status is not None
    assert status.gateway_state == "stopped"


async def test_a_message_that_comes_while_a_door_still_closes_waits_for_the_next_life(stage: Stage) -> None:
    async def slow_door(gateway: Gateway, task_status: trio.TaskStatus[None]) -> None:
        """As the web is while somebody is being given the last of it."""
        task_status.started()
        await gateway.shutdown.work_over.wait()
        await trio.sleep(1.5)

    async def served(task_status: trio.TaskStatus[Gateway]) -> None:
        await serve(
            Setup(
                stage.home,
                stage.config,
                agent=stage.agent,
                adapters=[stage.platform],
                doors=[slow_door],
                world=stage.world,
                worker=stage.worker,
                guarded=stage.guarded,
            ),
            task_status=task_status,
        )

    async with trio.open_nursery() as nursery:
        gateway = await nursery.start(served)
        await trio.sleep(1)
        gateway.stop(grace=0)
        await trio.sleep(1)
        await stage.says("hello")
    ended_well(stage)
    assert stage.pending() == ["hello"]


@pytest.mark.parametrize("said", SAID)
async def test_what_is_said_just_before_a_stop_at_any_moment_makes_no_crash_of_it(
    stage: Stage, said: str
) -> None:
    root = stage.home
    for moment in range(MOMENTS):
        stage.home = root / str(moment)
        async with stage.life() as gateway:
            stage.platform.deliver(stage.platform.event(said, chat=str(moment)))
            for _ in range(moment):
                await trio.lowlevel.checkpoint()
            gateway.stop(grace=0)
        ended_well(stage)


@pytest.mark.parametrize("said", SAID)
async def test_what_is_said_just_after_a_stop_at_any_moment_makes_no_crash_of_it(
    stage: Stage, said: str
) -> None:
    root = stage.home
    for moment in range(MOMENTS):
        stage.home = root / str(moment)
        async with stage.life() as gateway:
            await trio.testing.wait_all_tasks_blocked()
            gateway.stop(grace=0)
            for _ in range(moment):
                await trio.lowlevel.checkpoint()
            stage.platform.deliver(stage.platform.event(said, chat=str(moment)))
        ended_well(stage)


@pytest.mark.parametrize("command", ["/queue", "/steer", "/background"])
async def test_what_stands_behind_a_command_is_not_lost_if_the_gateway_goes_in_the_middle_of_it(
    stage: Stage, command: str
) -> None:
    root = stage.home
    for moment in range(MOMENTS):
        stage.home = root / str(moment)
        async with stage.life() as gateway:
            stage.platform.deliver(stage.platform.event(f"{command} thing {moment}"))
            for _ in range(moment):
                await trio.lowlevel.checkpoint()
            gateway.stop(grace=0)
        async with stage.life():
            await trio.sleep(20)
        assert stage.platform.chat("42").texts.count(f"You said: thing {moment}") == 1
