"""Ends that an agent delays: a stop by a person while it cleans up, its own context, and a crash beside
it."""

from __future__ import annotations

import gc
import shutil
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing

import pytest
import trio

from hermes_trio.cli.subcommands.run_command import keep_armed
from hermes_trio.gateway.ending.control import Control
from hermes_trio.gateway.facade import Gateway
from hermes_trio.gateway.serve import serve
from hermes_trio.gateway.turn.agent_function import Agent
from hermes_trio.gateway.turn.context import TurnContext
from hermes_trio.host.home.state_file import read_status
from hermes_trio.testing import Script
from tests.stage import Stage

ENDED_BY = {"/stop": "stopped", "/new": "reset", "another thing": "superseded"}


@pytest.mark.parametrize("how", ENDED_BY)
async def test_what_a_person_has_ended_is_not_cut_although_the_gateway_goes_while_it_tidies_up(
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
        assert [said for said, _ in stage.agent.began].count("work") == 1, "it is not taken up again"
    with closing(sqlite3.connect(stage.home / "gateway.db")) as db:
        assert db.execute("SELECT outcome FROM turns ORDER BY turn_id LIMIT 1").fetchall() == [
            (ENDED_BY[how],)
        ]


async def test_what_a_person_has_stopped_is_not_taken_up_although_the_gateway_is_killed_while_it_tidies_up(
    stage: Stage,
) -> None:
    stage.agent.on("work", Script().says("I begin.").hangs(resists=2))
    left = stage.home.with_name("left")
    async with stage.life():
        await stage.says("work")
        await trio.sleep(5)
        await stage.platform.says("/stop")
        await trio.sleep(1)
        assert [turn.outcome for turn in stage.turns()] == [None], "it still tidies up"
        shutil.copytree(stage.home, left)
        stage.platform.drop()
    stage.home = left
    async with stage.life() as gateway:
        await trio.sleep(5)
        assert [said for said, _ in stage.agent.began] == ["work"], "it is not taken up again"
        assert [turn.outcome for turn in stage.turns()] == ["stopped"]
        session = await gateway.home.reader.get_session(stage.entry().session_id)
        rows = session.rows if session is not None else ()
        assert any("I begin." in row.content for row in rows), "and what was shown is kept"


async def test_an_agent_that_cannot_be_closed_makes_no_crash_of_a_stop(stage: Stage) -> None:
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


async def test_an_agent_that_cannot_be_opened_is_a_start_that_fails(stage: Stage) -> None:
    @asynccontextmanager
    async def opened() -> AsyncIterator[Agent]:
        if stage.opened_agent:
            raise ValueError("there is no model")
        yield stage.agent

    stage.opened_agent = opened()
    with pytest.RaisesGroup(pytest.RaisesExc(ValueError, match="no model"), flatten_subgroups=True):
        async with stage.life():
            pytest.fail("it has started")


async def test_a_crash_is_a_crash_although_the_agent_hangs_when_it_is_closed(stage: Stage) -> None:
    @asynccontextmanager
    async def opened() -> AsyncIterator[Agent]:
        try:
            yield stage.agent
        finally:
            await trio.sleep_forever()

    async def door(gateway: Gateway, task_status: trio.TaskStatus[None]) -> None:
        task_status.started()
        raise RuntimeError("a broken assumption")

    with (
        pytest.RaisesGroup(pytest.RaisesExc(RuntimeError, match="broken"), flatten_subgroups=True),
        trio.fail_after(100),
    ):
        await serve(
            stage.home,
            stage.config,
            agent=opened(),
            adapters=[stage.platform],
            doors=[door],
            world=stage.world,
            worker=stage.worker,
            guarded=stage.guarded,
        )


async def test_a_crash_waits_for_no_turn_that_cannot_be_cancelled(stage: Stage) -> None:
    """As for one that waits for a thread: Trio waits too. `run` ends the process when it is time."""

    async def act(turn: TurnContext) -> object:
        with trio.CancelScope(shield=True):
            await trio.sleep(600)
        return "Done."

    async def door(gateway: Gateway, task_status: trio.TaskStatus[None]) -> None:
        task_status.started()
        await trio.sleep(20)
        raise RuntimeError("a broken assumption")

    stage.agent.does("work", act)
    control = Control()
    armed: list[tuple[float, float]] = []
    began = trio.current_time()

    async def crashes() -> None:
        with pytest.RaisesGroup(pytest.RaisesExc(RuntimeError, match="broken"), flatten_subgroups=True):
            await serve(
                stage.home,
                stage.config,
                agent=stage.agent,
                adapters=[stage.platform],
                doors=[door],
                control=control,
                world=stage.world,
                worker=stage.worker,
                guarded=stage.guarded,
            )

    async with trio.open_nursery() as beside:
        beside.start_soon(
            keep_armed, control, lambda seconds: armed.append((trio.current_time() - began, seconds))
        )
        beside.start_soon(crashes)
        await trio.sleep(1)
        stage.platform.post("work")
    gc.enable()
    assert armed[0] == (20, 5)
