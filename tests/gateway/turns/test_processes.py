"""Lifetimes of processes: a process of a turn ends with its block; a background process outlives the turn,
and ends with the session or the gateway. Processes and clock are real."""

from __future__ import annotations

import os
from collections.abc import Iterator

import msgspec
import pytest
import trio

from hermes_trio import open_gateway
from hermes_trio.config.schema import TerminalConfig
from hermes_trio.embed.shielded_tree import open_tree
from hermes_trio.gateway.processes.background import MOST, TooManyProcesses
from hermes_trio.gateway.serve import Setup
from hermes_trio.gateway.turn.context import TurnContext
from hermes_trio.tools.background_process import BackgroundProcess
from tests.host.children.kinds import KINDS, alive, soon, token, until
from tests.stage import Stage

pytestmark = pytest.mark.skipif(os.name != "posix", reason="these commands are for a POSIX shell")

PATIENCE = 20.0
"""Seconds; longer than any step takes on a busy machine, and shorter than any grace in this module."""


@pytest.fixture
def stage(real_stage: Stage) -> Stage:
    return real_stage


@pytest.fixture
def mine() -> Iterator[str]:
    """Token in the command lines of this test; afterwards no process with it is alive."""
    yield (number := token())
    soon(lambda: not alive(number))


async def says(stage: Stage, text: str, answer: str) -> None:
    with trio.fail_after(PATIENCE):
        await stage.platform.says(text)
        await stage.platform.until(lambda: stage.platform.chat("42").last == answer)


def on_disk(stage: Stage) -> list[tuple[bool, bool]]:
    """Return for each process whether it is a background process, and whether its end is stored."""
    with stage.looking() as db:
        query = "SELECT background, ended_at IS NOT NULL FROM processes ORDER BY started_at"
        return [(bool(background), bool(ended)) for background, ended in db.execute(query)]


@pytest.mark.parametrize("kind", KINDS)
async def test_a_background_process_outlives_its_turn_and_never_its_gateway(
    stage: Stage, mine: str, kind: str
) -> None:
    async def agent(turn: TurnContext) -> str:
        await turn.start_background(KINDS[kind].format(t=mine))
        return "It runs."

    async with open_tree(Setup(stage.home, stage.config, agent=agent, adapters=[stage.platform])) as gateway:
        await says(stage, "start it", "It runs.")
        await until(lambda: alive(mine))
        await until(lambda: not gateway.work.running)
        with trio.fail_after(PATIENCE):
            gateway.stop(grace=300)
            await stage.platform.until(lambda: not stage.platform.connected)
        assert alive(mine) == [], "a background process does not delay the stop"
    assert on_disk(stage) == [(True, True)]


async def test_a_new_session_begins_without_the_processes_of_the_old_one(stage: Stage, mine: str) -> None:
    async def agent(turn: TurnContext) -> str:
        await turn.start_background(["sleep", mine])
        return "It runs."

    async with open_gateway(stage.home, stage.config, agent=agent, adapters=[stage.platform]):
        await says(stage, "start it", "It runs.")
        assert alive(mine)
        await stage.platform.says("/new")
        await until(lambda: not alive(mine))
        await until(lambda: on_disk(stage) == [(True, True)])


async def test_a_background_process_that_ends_by_itself_is_reported_with_its_descendants_killed(
    stage: Stage, mine: str
) -> None:
    code: list[int | None] = []

    async def agent(turn: TurnContext) -> str:
        kept = await turn.start_background(f"sleep {mine} & exit 3")
        code.append(await kept.process.wait())
        return "It has ended."

    async with open_gateway(stage.home, stage.config, agent=agent, adapters=[stage.platform]):
        await says(stage, "start it", "It has ended.")
        await until(lambda: not alive(mine))
        await until(lambda: on_disk(stage) == [(True, True)])
    assert code == [3]


async def test_the_number_of_background_processes_is_limited(stage: Stage, mine: str) -> None:
    started: list[BackgroundProcess] = []

    async def agent(turn: TurnContext) -> str:
        try:
            while True:
                started.append(await turn.start_background(["sleep", mine]))
        except TooManyProcesses as error:
            return str(error)

    # Without a sandbox, whose own processes carry the number too.
    config = msgspec.structs.replace(stage.config, terminal=TerminalConfig(sandbox="off"))
    async with open_tree(Setup(stage.home, config, agent=agent, adapters=[stage.platform])) as gateway:
        full = "64 background processes are running. End one before you start another."
        await says(stage, "start them", full)
        assert len(started) == len(alive(mine)) == MOST
        gateway.work.background.kill(started[0])
        await until(lambda: len(alive(mine)) == MOST - 1)


async def test_a_process_of_a_turn_ends_with_it_and_its_end_is_stored(stage: Stage, mine: str) -> None:
    async def agent(turn: TurnContext) -> str:
        async with turn.running(["sleep", mine]) as process:
            await turn.say("I wait.")
            await process.wait()
        return "Done."

    async with open_gateway(stage.home, stage.config, agent=agent, adapters=[stage.platform]):
        await says(stage, "work", "I wait. ▉")
        await stage.platform.says("/stop")
        with trio.fail_after(PATIENCE):
            await stage.platform.until(
                lambda: stage.platform.chat("42").texts[0] == "I wait.\n\n(interrupted)"
            )
        assert alive(mine) == []
    assert on_disk(stage) == [(False, True)]
