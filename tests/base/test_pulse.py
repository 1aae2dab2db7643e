"""Events that can happen again: a pulse is forgotten, a wakeup is remembered until it is cleared."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from hermes_trio.base.pulse import Pulse, Wakeup


async def _wait(event: Pulse | Wakeup, woken: list[str], name: str) -> None:
    await event.wait()
    woken.append(name)


async def test_a_pulse_wakes_all_tasks_that_wait(nursery: trio.Nursery) -> None:
    pulse, woken = Pulse(), list[str]()
    nursery.start_soon(_wait, pulse, woken, "a")
    nursery.start_soon(_wait, pulse, woken, "b")
    await trio.testing.wait_all_tasks_blocked()
    pulse.set()
    await trio.testing.wait_all_tasks_blocked()
    assert sorted(woken) == ["a", "b"]


async def test_a_pulse_before_the_wait_is_forgotten(autojump_clock: trio.testing.MockClock) -> None:
    pulse = Pulse()
    pulse.set()
    with pytest.raises(trio.TooSlowError), trio.fail_after(1):
        await pulse.wait()


async def test_each_wait_for_a_pulse_waits_for_the_next_one(nursery: trio.Nursery) -> None:
    pulse, woken = Pulse(), list[str]()

    async def wait_twice() -> None:
        await _wait(pulse, woken, "first")
        await _wait(pulse, woken, "second")

    nursery.start_soon(wait_twice)
    await trio.testing.wait_all_tasks_blocked()
    pulse.set()
    await trio.testing.wait_all_tasks_blocked()
    assert woken == ["first"]
    pulse.set()
    await trio.testing.wait_all_tasks_blocked()
    assert woken == ["first", "second"]


async def test_a_condition_that_is_rechecked_at_each_pulse_misses_no_change(nursery: trio.Nursery) -> None:
    pulse, value, seen = Pulse(), 0, list[int]()

    async def wait_for_two() -> None:
        while value < 2:
            await pulse.wait()
            seen.append(value)

    nursery.start_soon(wait_for_two)
    await trio.testing.wait_all_tasks_blocked()
    value = 1
    pulse.set()
    value = 2
    pulse.set()
    await trio.testing.wait_all_tasks_blocked()
    assert seen == [2]


async def test_a_wakeup_before_the_wait_is_remembered() -> None:
    wakeup = Wakeup()
    assert not wakeup.is_set()
    wakeup.set()
    wakeup.set()
    assert wakeup.is_set()
    with trio.fail_after(1):
        await wakeup.wait()


async def test_a_cleared_wakeup_is_waited_for_again(autojump_clock: trio.testing.MockClock) -> None:
    wakeup = Wakeup()
    wakeup.set()
    wakeup.clear()
    assert not wakeup.is_set()
    with pytest.raises(trio.TooSlowError), trio.fail_after(1):
        await wakeup.wait()
    wakeup.set()
    with trio.fail_after(1):
        await wakeup.wait()


async def test_clearing_a_wakeup_strands_no_task(nursery: trio.Nursery) -> None:
    wakeup, woken = Wakeup(), list[str]()
    nursery.start_soon(_wait, wakeup, woken, "early")
    await trio.testing.wait_all_tasks_blocked()
    wakeup.clear()  # not set: the waiting task stays attached to it
    wakeup.set()
    wakeup.clear()  # the task was woken, though it has not run yet
    await trio.testing.wait_all_tasks_blocked()
    assert woken == ["early"]
    assert not wakeup.is_set()
