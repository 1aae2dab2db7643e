"""Ends that an agent delays: a stop by a person while it cleans up, its own context, and a crash beside
it."""

from __future__ import annotations

import gc
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio

from hermes_trio.cli.subcommands.run_command import keep_armed
from hermes_trio.config.schema import AgentConfig
from hermes_trio.gateway.ending.control import Control
from hermes_trio.gateway.facade import RunningGateway
from hermes_trio.gateway.serve import serve
from hermes_trio.gateway.turn.agent_function import Agent
from hermes_trio.gateway.turn.context import TurnContext
from hermes_trio.host.home.state_file import read_status
from hermes_trio.testing import Script
from tests.stage import Stage, everyone

ENDED_BY = {"/stop": "stopped", "/new": "reset", "another thing": "superseded"}


@pytest.mark.parametrize("how", ENDED_BY)
async def test_a_turn_ended_by_a_person_is_not_cut_by_a_stop_during_its_cleanup(
    stage: Stage, how: str
) -> None:
    stage.agent.on("work", Script().says("I begin.").hangs(resists=2))
    async with stage.life() as gateway:
        await stage.says("work")
        await trio.sleep(5)
        await stage.platform.says(how)
        await trio.sleep(1)
        gateway.stop(grace=0)
    async with stage.life():
        await trio.sleep(5)
        assert [said for said, _ in stage.agent.began].count("work") == 1, "the turn is not resumed"
    with stage.looking() as db:
        assert db.execute("SELECT outcome FROM turns ORDER BY turn_id LIMIT 1").fetchall() == [
            (ENDED_BY[how],)
        ]


async def test_a_turn_that_timed_out_is_not_cut_by_a_stop_during_its_cleanup(stage: Stage) -> None:
    stage.config = everyone(AgentConfig(gateway_timeout=10, gateway_timeout_warning=0))
    stage.agent.on("work", Script().says("I begin.").hangs(resists=2))
    async with stage.life() as gateway:
        await stage.says("work")
        await trio.sleep(11)
        gateway.stop(grace=0)
    async with stage.life():
        await trio.sleep(5)
        assert [said for said, _ in stage.agent.began] == ["work"], "the turn is not resumed"
        assert [turn.outcome for turn in stage.turns()] == ["timed_out"]
        told = stage.platform.chat("42").texts
        assert any("agent.gateway_timeout" in text for text in told), "the person is told why"


@pytest.mark.sqlite
async def test_a_turn_stopped_by_a_person_is_not_resumed_after_a_kill_during_its_cleanup(
    stage: Stage,
) -> None:
    stage.agent.on("work", Script().says("I begin.").hangs(resists=2))
    left = stage.home.with_name("left")
    async with stage.life():
        await stage.says("work")
        await trio.sleep(5)
        await stage.platform.says("/stop")
        await trio.sleep(1)
        assert [turn.outcome for turn in stage.turns()] == [None], "the agent still cleans up"
        shutil.copytree(stage.home, left)
        stage.platform.drop()
    stage.home = left
    async with stage.life() as gateway:
        await trio.sleep(5)
        assert [said for said, _ in stage.agent.began] == ["work"], "the turn is not resumed"
        assert [turn.outcome for turn in stage.turns()] == ["stopped"]
        session = await gateway.home.reader.get_session(stage.entry().session_id)
        rows = session.rows if session is not None else ()
        assert any("I begin." in row.content for row in rows), "the shown text is kept"


async def test_a_stop_is_no_crash_if_the_agent_cannot_be_closed(stage: Stage) -> None:
    @asynccontextmanager
    async def opened() -> AsyncIterator[Agent]:
        yield stage.agent
        raise ValueError("it cannot be closed")

    stage.opened_agent = opened()
    async with stage.life() as gateway:
        await stage.says("hello")
        await trio.sleep(5)
        gateway.stop(grace=0)
    status = read_status(stage.home)
    assert status is not None
    assert status.gateway_state == "stopped"


async def test_a_start_fails_if_the_agent_cannot_be_opened(stage: Stage) -> None:
    @asynccontextmanager
    async def opened() -> AsyncIterator[Agent]:
        if stage.opened_agent:
            raise ValueError("there is no model")
        yield stage.agent

    stage.opened_agent = opened()
    with pytest.RaisesGroup(pytest.RaisesExc(ValueError, match="no model"), flatten_subgroups=True):
        async with stage.life():
            pytest.fail("it has started")


async def test_a_crash_is_raised_although_closing_the_agent_hangs(stage: Stage) -> None:
    @asynccontextmanager
    async def opened() -> AsyncIterator[Agent]:
        try:
            yield stage.agent
        finally:
            await trio.sleep_forever()

    async def door(gateway: RunningGateway, task_status: trio.TaskStatus[None]) -> None:
        task_status.started()
        raise RuntimeError("a broken assumption")

    with (
        pytest.RaisesGroup(pytest.RaisesExc(RuntimeError, match="broken"), flatten_subgroups=True),
        trio.fail_after(100),
    ):
        await serve(stage.setup(agent=opened(), doors=[door]))


async def test_a_crash_arms_the_deadline_although_a_turn_cannot_be_cancelled(stage: Stage) -> None:
    """Trio waits for such a turn, as for a thread; the deadline of `run` ends the process."""

    async def act(turn: TurnContext) -> object:
        with trio.CancelScope(shield=True):
            await trio.sleep(600)
        return "Done."

    async def door(gateway: RunningGateway, task_status: trio.TaskStatus[None]) -> None:
        task_status.started()
        await trio.sleep(20)
        raise RuntimeError("a broken assumption")

    stage.agent.does("work", act)
    control = Control()
    armed: list[tuple[float, float]] = []
    began = trio.current_time()

    async def crashes() -> None:
        with pytest.RaisesGroup(pytest.RaisesExc(RuntimeError, match="broken"), flatten_subgroups=True):
            await serve(stage.setup(doors=[door]), control=control)

    async with trio.open_nursery() as beside:
        beside.start_soon(
            keep_armed, control, lambda seconds: armed.append((trio.current_time() - began, seconds))
        )
        beside.start_soon(crashes)
        await trio.sleep(1)
        stage.platform.post("work")
    gc.enable()
    assert armed[0] == (20, 5)
