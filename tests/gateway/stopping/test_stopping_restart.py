"""A restart that is replaced by a stop: only the stop is told, stored and left for the next life."""

from __future__ import annotations

import pytest
import trio
import trio.lowlevel

from hermes_trio.config.schema import AgentConfig
from hermes_trio.gateway.ending.endings_table import Cause, Ending, Exit
from hermes_trio.gateway.facade import RunningGateway
from hermes_trio.gateway.outbound import texts
from hermes_trio.host.home.markers import RESTART_PENDING
from hermes_trio.testing import Script
from tests.gateway.stopping.trouble import Trouble
from tests.stage import Stage, everyone

BEGINS = Script().says("I begin.")


@pytest.mark.parametrize(
    ("cause", "state", "leaves"),
    [(Cause.PLANNED, "stopped", Exit.OK), (Cause.SIGNAL, "running", Exit.FAILURE)],
)
async def test_a_stop_during_a_restart_is_told_and_stored_as_a_stop(
    stage: Stage, cause: Cause, state: str, leaves: Exit
) -> None:
    stage.agent.on("hang", BEGINS.hangs())
    async with stage.life() as gateway:
        await stage.says("hang")
        gateway.stop(restart=True, grace=30)
        await trio.sleep(4)
        assert gateway.control.ask(Ending(cause, grace=10))
        assert not gateway.stop(restart=True, grace=100), "a restart cannot replace a stop"
        await trio.sleep(1)
        status = stage.status()
        assert (status.gateway_state, status.after) == ("draining", state), "the state after a kill"
        assert stage.ending().kind == "stop"
        await trio.sleep(60)
        assert stage.ended_at == 10
    assert (stage.status().gateway_state, stage.status().restart_requested) == (state, False)
    assert stage.ending().cause == cause
    assert gateway.control.current is not None
    assert gateway.shutdown.consequences(gateway.control.current).exit is leaves
    assert not (stage.home / RESTART_PENDING).exists()
    assert len(stage.platform.chat("42").texts) == 2, "the begun answer and one warning"
    assert [turn.reason for turn in stage.turns()] == ["shutdown_timeout"]


async def test_a_stop_during_a_restart_counts_also_on_a_hanging_disk(stage: Stage) -> None:
    trouble = Trouble(stage, "store")
    async with stage.life() as gateway, trio.open_nursery() as nursery:
        await stage.says("hang")
        gateway.stop(restart=True, grace=600)
        nursery.start_soon(trouble.begins, 3)
        await trio.sleep_until(4)
        gateway.stop(grace=10)
        await trio.sleep(60)
        assert stage.ended_at is not None
        assert 10 <= stage.ended_at <= 15


async def test_a_stop_whose_grace_is_over_already_cuts_turns_with_a_final_edit(stage: Stage) -> None:
    stage.agent.on("hang", BEGINS.hangs())
    async with stage.life() as gateway:
        await stage.says("hang")
        gateway.stop(restart=True, grace=600)
        await trio.sleep_until(40)
        gateway.stop(grace=10)
        await trio.sleep(60)
        assert stage.ended_at == 40
    assert stage.platform.chat("42").texts[0] == "I begin.\n\n(interrupted)"
    assert [turn.outcome for turn in stage.turns()] == ["cut"]


async def test_a_stop_at_the_moment_of_a_restart_replaces_it(stage: Stage) -> None:
    async def stops(gateway: RunningGateway) -> None:
        await trio.lowlevel.checkpoint()
        gateway.stop(grace=10)

    for attempt in range(20):  # Trio shuffles the order of the tasks
        stage.home = stage.home.with_name(f"home-{attempt}")
        stage.agent.on("hang", BEGINS.hangs())
        async with stage.life() as gateway, trio.open_nursery() as nursery:
            await stage.says("hang")
            began = trio.current_time()
            gateway.stop(restart=True, grace=600)
            nursery.start_soon(stops, gateway)
            await trio.sleep(60)
            assert stage.ended_at == began + 10
        assert stage.ending().kind == "stop"


async def test_a_chat_is_not_told_of_a_restart_that_became_a_stop(stage: Stage) -> None:
    stage.agent.on("hang", Script().hangs())
    stage.config = everyone(AgentConfig(restart_drain_timeout=30))
    async with stage.life() as gateway:
        await stage.says("hang", chat="1")
        await stage.says("/restart")
        await trio.sleep(1)
        gateway.stop(grace=0)
        await trio.sleep(60)
    async with stage.life():
        await trio.sleep(10)
        assert texts.restarted() not in stage.platform.chat("42").texts
