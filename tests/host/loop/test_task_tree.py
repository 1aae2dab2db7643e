"""The task tree: where each task waits, since when, and until when."""

from __future__ import annotations

import math
import os
import re
import signal
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from hermes_trio.base.world import World
from hermes_trio.host.loop.task_tree import (
    TREE_FILE,
    TaskLine,
    task_tree,
    tree_text,
    waits_noted,
    write_tree_on_signal,
)
from tests.host.children.kinds import until


async def waits_within() -> None:
    await waits()


async def waits() -> None:
    await trio.sleep(100)


async def has_children() -> None:
    with trio.move_on_after(30):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(waits, name="b")
            nursery.start_soon(waits_within, name="a")


async def ends_slowly() -> None:
    try:
        await trio.sleep_forever()
    finally:
        with trio.move_on_after(5, shield=True):
            await trio.lowlevel.wait_task_rescheduled(lambda _: trio.lowlevel.Abort.SUCCEEDED)


async def test_the_tree_shows_the_place_the_children_and_the_deadline_of_each_task(
    autojump_clock: MockClock,
) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(has_children, name="parent")
        nursery.start_soon(trio.sleep, 10)
        await wait_all_tasks_blocked()
        tree = task_tree()
        nursery.cancel_scope.cancel()
    names = [line.name for line in tree]
    top = names.index("parent")
    parent, a, b, sleeper = tree[top : top + 4]
    assert [line.name for line in (parent, a, b, sleeper)] == ["parent", "a", "b", "trio.sleep"]
    assert [line.depth - parent.depth for line in (parent, a, b, sleeper)] == [0, 1, 1, 0]
    assert [line.deadline for line in (parent, a, b, sleeper)] == [30, 30, 30, 10]
    assert [[place.rpartition(" ")[2] for place in line.waits] for line in (parent, a, b)] == [
        ["has_children"],
        ["waits", "waits_within"],
        ["waits"],
    ]
    assert a.waits[0] == b.waits[0]
    assert [place.rpartition(":")[0] for place in sleeper.waits] == ["trio._timeouts"]


async def test_the_tree_has_each_task_once(autojump_clock: MockClock) -> None:
    async with trio.open_nursery() as nursery:
        for number in range(500):
            nursery.start_soon(waits, name=f"task {number:03}")
        await wait_all_tasks_blocked()
        names = [line.name for line in task_tree() if line.name.startswith("task ")]
        nursery.cancel_scope.cancel()
    assert names == [f"task {number:03}" for number in range(500)]


async def test_a_cancelled_task_that_still_runs_is_shown_as_cancelled(autojump_clock: MockClock) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(ends_slowly, name="slow")
        nursery.start_soon(stubborn, name="stubborn")
        await wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
        with trio.CancelScope(shield=True):
            await wait_all_tasks_blocked()
            deadlines = {line.name: line.deadline for line in task_tree()}
    assert deadlines["slow"] == 5
    assert deadlines["stubborn"] == -math.inf


async def stubborn() -> None:
    """Ignore cancellation for a second."""
    task = trio.lowlevel.current_task()
    trio.lowlevel.spawn_system_task(wakes, task)
    await trio.lowlevel.wait_task_rescheduled(lambda _: trio.lowlevel.Abort.FAILED)


async def wakes(task: trio.lowlevel.Task) -> None:
    await trio.sleep(1)
    trio.lowlevel.reschedule(task)


async def test_another_thread_can_read_the_tree(autojump_clock: MockClock) -> None:
    root = trio.lowlevel.current_root_task()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(waits, name="somebody")
        await wait_all_tasks_blocked()
        autojump_clock.autojump_threshold = math.inf
        tree = await trio.to_thread.run_sync(task_tree, root)
        nursery.cancel_scope.cancel()
    assert "somebody" in [line.name for line in tree]


async def test_wait_times_are_noted_for_each_task(autojump_clock: MockClock) -> None:
    async def twice() -> None:
        await trio.sleep(3)
        await trio.sleep(100)

    with waits_noted() as noted:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(twice, name="twice")
            nursery.start_soon(trio.sleep, 1)
            await trio.sleep(10)
            since = {line.name: line.since for line in task_tree(waits=noted)}
            assert since["twice"] == 3
            nursery.cancel_scope.cancel()
        assert "twice" not in {task.name for task in noted.since}, "a task that has ended is forgotten"


async def test_steps_that_hold_the_loop_are_noted(autojump_clock: MockClock) -> None:
    with waits_noted() as noted:
        await trio.sleep(1)
        autojump_clock.jump(0.0625)
        await trio.sleep(1)  # the loop waits after the step
        autojump_clock.jump(0.0078125)
        await trio.lowlevel.checkpoint()
        autojump_clock.jump(0.25)
        await trio.lowlevel.checkpoint()  # another step follows it
    assert (noted.long_steps.seconds, sum(noted.long_steps.counts)) == (0.3125, 2)


@pytest.mark.skipif(not hasattr(signal, "SIGUSR2"), reason="there is no such signal here")
async def test_the_tree_file_exists_while_its_signal_is_received(tmp_path: Path, world: World) -> None:
    file = tmp_path / TREE_FILE
    with waits_noted() as noted:
        async with trio.open_nursery() as nursery:
            await nursery.start(write_tree_on_signal, tmp_path, world, noted)
            assert file.read_text().startswith(f"pid {os.getpid()}, 2026-05-20 12:00:00 UTC\n")
            nursery.start_soon(waits, name="somebody who waits")
            await wait_all_tasks_blocked()
            os.kill(os.getpid(), signal.SIGUSR2)
            await until(lambda: "somebody who waits" in file.read_text())
            assert re.search(
                r"somebody who waits \[.* s left\]  \d+\.\d s in .*:\d+ waits\n", file.read_text()
            )
            nursery.cancel_scope.cancel()
    assert not file.exists(), "the signal would end this process now"


@pytest.mark.skipif(not hasattr(signal, "SIGUSR2"), reason="there is no such signal here")
async def test_a_tree_that_cannot_be_written_ends_nothing_else(tmp_path: Path, world: World) -> None:
    (tmp_path / TREE_FILE).mkdir()
    with waits_noted() as noted:
        async with trio.open_nursery() as nursery:
            await nursery.start(write_tree_on_signal, tmp_path, world, noted)
            nursery.cancel_scope.cancel()


def test_the_tree_as_text() -> None:
    lines = [
        TaskLine(0, "main", (), math.nan, math.inf),
        TaskLine(1, "session 42", ("inner:7 reply", "outer:9 turn"), 95.5, 112.34),
        TaskLine(2, "typing", (), math.nan, -math.inf),
    ]
    assert tree_text(lines, now=100.0) == (
        "main\n  session 42 [12.3 s left]  4.5 s in inner:7 reply < outer:9 turn\n    typing [cancelled]"
    )
