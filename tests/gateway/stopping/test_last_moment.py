"""A message at the last moment of a stop: it is stored for the next life, and the stop is no crash."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TypeVar

import outcome
import pytest
import trio
import trio.lowlevel

from hermes_trio.gateway.facade import RunningGateway
from hermes_trio.host.loop.worker import Runner, inline_worker
from tests.stage import Stage, settled

T = TypeVar("T")

MOMENTS = 30
"""Number of loop steps that are tried; many more than a stop without work takes."""
SAID = ["hello", "/queue hello", "/status", "/new"]


async def test_a_message_during_the_close_of_a_door_waits_for_the_next_life(stage: Stage) -> None:
    async def slow_door(gateway: RunningGateway, task_status: trio.TaskStatus[None]) -> None:
        """Close slowly, like the web during a last response."""
        task_status.started()
        await gateway.shutdown.work_over.wait()
        await trio.sleep(1.5)

    async with stage.life(doors=[slow_door]) as gateway:
        await trio.sleep(1)
        gateway.stop(grace=0)
        await trio.sleep(1)
        await stage.says("hello")
    assert stage.status().gateway_state == "stopped"
    assert stage.pending() == ["hello"]


async def test_a_chat_that_has_its_answer_is_not_told_that_a_turn_is_interrupted(stage: Stage) -> None:
    """The disk takes the last record of the journal late, so the task of the turn outlives its end."""
    held: list[Callable[[], object]] = []
    is_late = True

    @contextmanager
    def worker(name: str) -> Iterator[Runner]:
        with inline_worker(name) as at_once:

            def runner(job: Callable[[], T], done: Callable[[outcome.Outcome[T]], object]) -> None:
                if is_late and name == "journal-writer" and any(turn.outcome for turn in stage.turns()):
                    held.append(partial(at_once, job, done))
                else:
                    at_once(job, done)

            yield runner

    stage.worker = worker
    async with stage.life() as gateway:
        await stage.says("hello")
        await settled()
        assert held, "the turn still has its last record to write"
        gateway.stop(grace=0)
        await settled()
        is_late = False
        for go_on in held:
            go_on()
        stage.worker = inline_worker
        held.clear()
    assert stage.platform.chat("42").texts == ["You said: hello"]


@pytest.mark.parametrize("said", SAID)
async def test_a_message_just_before_a_stop_makes_no_crash(stage: Stage, said: str) -> None:
    root = stage.home
    for moment in range(MOMENTS):
        stage.home = root / str(moment)
        async with stage.life() as gateway:
            stage.platform.deliver(stage.platform.event(said, chat=str(moment)))
            for _ in range(moment):
                await trio.lowlevel.checkpoint()
            gateway.stop(grace=0)
        assert stage.status().gateway_state == "stopped"


@pytest.mark.parametrize("said", SAID)
async def test_a_message_just_after_a_stop_makes_no_crash(stage: Stage, said: str) -> None:
    root = stage.home
    for moment in range(MOMENTS):
        stage.home = root / str(moment)
        async with stage.life() as gateway:
            await settled()
            gateway.stop(grace=0)
            for _ in range(moment):
                await trio.lowlevel.checkpoint()
            stage.platform.deliver(stage.platform.event(said, chat=str(moment)))
        assert stage.status().gateway_state == "stopped"


@pytest.mark.parametrize("command", ["/queue", "/steer", "/background"])
async def test_the_text_of_a_command_is_not_lost_in_a_stop_at_any_moment(stage: Stage, command: str) -> None:
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
