"""Snapshots of all processes, shared by the tasks that ask together."""

from __future__ import annotations

import os

import pytest
import trio
import trio.testing

from hermes_trio.host.processes.lookout import AHEAD, LONGEST_REST, REST, Lookout
from hermes_trio.host.processes.sweep import ProcessTable, System
from tests.host.children.kinds import token
from tests.host.processes.gateways import stranger
from tests.host.processes.systems import ScarceSystem

pytestmark = pytest.mark.skipif(os.name != "posix", reason="these commands are for a POSIX shell")


async def test_tasks_that_ask_together_share_a_look() -> None:
    system = ScarceSystem()
    lookout = Lookout(system)
    async with trio.open_nursery() as nursery:
        for _ in range(100):
            nursery.start_soon(lookout.look)
    assert 0 < system.looks <= 2


async def test_a_look_is_never_older_than_its_call() -> None:
    lookout = Lookout()
    for _ in range(5):
        mark = token()
        with stranger(mark) as process:
            assert process.pid in (await lookout.look()).by_pid


async def test_a_look_is_retried_until_there_are_descriptors() -> None:
    system = ScarceSystem(refusals=2)
    assert os.getpid() in (await Lookout(system).look()).by_pid
    assert system.looks == 3


class _SlowSystem(System):
    """Takes `seconds` for each look."""

    def __init__(self, clock: trio.testing.MockClock, seconds: float = 1) -> None:
        super().__init__()
        self._clock, self._seconds = clock, seconds

    def look(self) -> ProcessTable:
        self._clock.jump(self._seconds)
        return super().look()


async def test_a_task_cancelled_before_its_look_blocks_no_other_task(
    autojump_clock: trio.testing.MockClock,
) -> None:
    lookout = Lookout(_SlowSystem(autojump_clock))
    await lookout.look()
    with trio.move_on_after((LONGEST_REST - AHEAD) / 2) as scope:
        await lookout.look()
    assert scope.cancelled_caught, "a look that took long is followed by a pause"
    with trio.fail_after(5):
        await lookout.look()


async def test_the_second_look_follows_at_once_and_many_take_a_tenth_of_the_time(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """The first process of a sandbox is often still ending at the first look after a command."""
    took = AHEAD / REST / 2
    lookout = Lookout(_SlowSystem(autojump_clock, took))
    begun = trio.current_time()
    for _ in range(3):
        await lookout.look()
    assert trio.current_time() - begun == pytest.approx(3 * took)
    for _ in range(97):
        await lookout.look()
    assert trio.current_time() - begun == pytest.approx(100 * (1 + REST) * took, rel=0.05)
