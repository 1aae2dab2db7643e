"""Orphans of a turn: nothing outlives a turn, at whichever checkpoint it is ended.

A turn with all features (streamed text, typing, notices, rows, a tool that runs a command) is ended at its
first checkpoint, then at its second, and so on until the turn is over before that. A checkpoint is any halt
of the session's task, of a task below it, or of the lane. Each time this process has afterwards exactly the
resources that it had before, and disk and chat agree on one end.
"""

from __future__ import annotations

import gc
import itertools
import math
import os
import random
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from hermes_trio.gateway.turn.context import TurnContext
from hermes_trio.host.loop.worker import inline_worker, worker_thread
from hermes_trio.host.processes.guard import open_guard
from hermes_trio.platform.contract import Adapter
from hermes_trio.state.tables.turns import Outcome
from hermes_trio.testing.checkpoints import Countdown, at_halt
from tests.gateway.stopping.orphans import held, tasks
from tests.gateway.stopping.sweep_checks import check_end, is_quiet, without_warnings
from tests.gateway.stopping.sweep_scene import ANSWER, Platform, Scene, config, memory, silence, sockets
from tests.stage import KEY, no_guard

pytestmark = pytest.mark.timeout(900)
"""Seconds for a hundred lives in a row, on any disk."""

MOST_HALTS = 500
THE_GRACE_IS_OVER = "the grace is over"
THERE_IS_NO_GRACE = "there is no grace"
CANCELLED_AROUND = "it is cancelled from outside"
ENDS_OF_A_GATEWAY = THE_GRACE_IS_OVER, THERE_IS_NO_GRACE, CANCELLED_AROUND
LANES = ["some", pytest.param("all", marks=pytest.mark.soak)]


@pytest.fixture(autouse=True)
def nothing_is_collected() -> Iterator[None]:
    """Turn off the garbage collector, because an object that only it closes was left open."""
    gc.disable()
    yield
    gc.enable()


@pytest.fixture
def imagined(tmp_path: Path, autojump_clock: MockClock) -> Scene:
    """A scene in memory, on the virtual clock, without any slack."""
    return Scene(
        tmp_path,
        config(notify=3, warn=4, edit=0.8),
        memory,
        tool=silence,
        worker=inline_worker,
        guarded=no_guard,
        pace=0.5,
        look_every=0.25,
        patience=0,
    )


@pytest.fixture
def real(tmp_path: Path) -> Scene:
    """A scene with threads, sockets and processes."""
    if os.name != "posix":
        pytest.skip("the command is for a POSIX shell")

    async def tool(turn: TurnContext) -> None:
        async with turn.running("sleep 300 & echo begun; wait") as process:
            await process.output.beyond(0)
            await trio.sleep(0.1)

    return Scene(
        tmp_path,
        config(notify=0.05, warn=0.04, edit=0.02),
        sockets,
        tool=tool,
        worker=worker_thread,
        guarded=open_guard,
        pace=0.02,
        look_every=0.01,
        patience=20,
    )


def halts(lane: str) -> Iterator[int]:
    """Return the halts at which a turn is ended: all of them, or a random selection in the quick lane."""
    stride = 1 if lane == "all" else 20
    return iter(range(random.randint(1, stride), MOST_HALTS, stride))  # noqa: S311


def is_of_the_turn(task: trio.lowlevel.Task) -> bool:
    return is_below(task, "session agent:main:memory:dm:42", "lane memory:42")


def is_of_the_gateway(task: trio.lowlevel.Task) -> bool:
    return is_below(task, "gateway")


def is_below(task: trio.lowlevel.Task, *names: str) -> bool:
    while task.name not in names:
        if task.parent_nursery is None:
            return False
        task = task.parent_nursery.parent_task
    return True


def let_the_deadline_pass() -> None:
    """Set the deadline of the work to the past."""
    for task in tasks():
        if task.name.startswith("session ") and task.parent_nursery is not None:
            task.parent_nursery.cancel_scope.deadline = -math.inf


async def sweep_of_stops(scene: Scene, halts: Iterator[int]) -> Counter[object]:
    """Run one life with many turns that a person stops; return the counted outcomes."""
    home, seen = scene.home / "home", Counter[object]()
    async with scene.opened_platform() as (platform, adapter), scene.life(home, adapter) as gateway:
        texts = platform.chat("42").messages
        before = None
        for halt in itertools.chain([MOST_HALTS], halts):
            shown = len(texts)
            act = partial(gateway.work.running.end, KEY.format("42"), Outcome.STOPPED)
            with without_warnings(), at_halt(halt, act, whose=is_of_the_turn) as cut:
                await platform.says("Make it.")
                await scene.until(partial(is_quiet, home, platform))
            is_first = before is None  # this turn is not stopped, and leaves a lane and a session
            before = before or await scene.at_rest()
            await scene.holds_only(before)
            # Checked here, because the last record and the close of its file follow the commit.
            seen[check_end(home, [message.text for message in texts[shown:]])] += 1
            if not (is_first or cut.is_over):
                break
        assert not cut.is_over, "the last turn ended before it was ended"
        assert scene.visits == ["entered"]
    assert scene.visits == ["entered", "left"]
    print(f"{halt} halts: {dict(seen)}")
    return seen


async def sweep_of_lives(scene: Scene, way: str, halts: Iterator[int]) -> Counter[object]:
    """Run a turn in each of many lives, which are ended during it; return the counted outcomes."""
    seen = Counter[object]()
    before = None
    for halt in itertools.chain([MOST_HALTS], halts):
        home = scene.home / f"halt-{halt}"
        async with scene.opened_platform() as (platform, adapter):
            with without_warnings():
                cut = await life_that_ends(scene, home, platform, adapter, way, halt)
            texts = platform.chat("42").texts
        assert scene.visits == ["entered", "left"]
        seen[check_end(home, texts)] += 1
        if before is None:  # threads of the former test may still have been ending
            before = await scene.at_rest()
            continue
        await scene.holds_only(before)
        if not cut.is_over:
            break
    assert not cut.is_over, "the last turn ended before it was ended"
    print(f"{halt} halts: {dict(seen)}")
    return seen


async def life_that_ends(
    scene: Scene, home: Path, platform: Platform, adapter: Adapter, way: str, halt: int
) -> Countdown:
    with trio.CancelScope() as around:
        async with scene.life(home, adapter) as gateway:

            def is_running(task: trio.lowlevel.Task) -> bool:
                return bool(gateway.work.running) and is_of_the_turn(task)

            ways: dict[str, tuple[Callable[[], object], Callable[[trio.lowlevel.Task], bool]]] = {
                THERE_IS_NO_GRACE: (partial(gateway.stop, grace=0), is_of_the_turn),
                THE_GRACE_IS_OVER: (let_the_deadline_pass, is_running),
                CANCELLED_AROUND: (around.cancel, is_of_the_turn),
            }
            act, whose = ways[way]
            asked = 1 if way == THE_GRACE_IS_OVER else MOST_HALTS
            with (
                at_halt(asked, partial(gateway.stop, grace=1000), whose=is_running),
                at_halt(halt, act, whose=whose) as cut,
            ):
                platform.post("Make it.")
                await scene.until(lambda: cut.is_over or ANSWER in platform.chat("42").texts)
                await scene.until(lambda: not (cut.is_over and platform.connected))
    return cut


async def test_a_turn_stopped_at_any_checkpoint_leaves_no_resources(imagined: Scene) -> None:
    seen = await sweep_of_stops(imagined, halts("all"))
    assert seen.keys() == {"answered", "stopped"}


@pytest.mark.parametrize("way", ENDS_OF_A_GATEWAY)
async def test_a_gateway_ended_at_any_checkpoint_of_a_turn_leaves_no_resources(
    imagined: Scene, way: str
) -> None:
    seen = await sweep_of_lives(imagined, way, halts("all"))
    assert {"cut", "answered"} <= seen.keys() <= {None, "unstarted", "cut", "answered"}


async def test_a_start_cancelled_at_any_step_leaves_no_resources(imagined: Scene) -> None:
    before = held()
    for halt in range(1, MOST_HALTS):
        home = imagined.home / f"halt-{halt}"
        async with imagined.opened_platform() as (platform, adapter):
            with (
                without_warnings(),
                trio.CancelScope() as around,
                at_halt(halt, around.cancel, whose=is_of_the_gateway) as cut,
            ):
                async with imagined.life(home, adapter):
                    await imagined.until(lambda: platform.connected)
        await imagined.holds_only(before)
        assert imagined.visits in ([], ["entered", "left"])
        if not cut.is_over:
            break
    assert not cut.is_over, "the last start was complete before"
    print(f"{halt} halts")


async def test_the_inactivity_timer_does_not_spin_on_rounding_errors(
    imagined: Scene, autojump_clock: MockClock
) -> None:
    imagined.pace, moment = 0, 0.1
    assert (moment + 4) - moment < 4, "a rounding error, which no clock can show"
    async with imagined.opened_platform() as (platform, adapter), imagined.life(imagined.home, adapter):
        await trio.sleep_until(moment)
        with at_halt(MOST_HALTS, partial(autojump_clock.jump, 1), whose=is_of_the_turn) as spinning:
            await platform.says("Make it.")
            await imagined.until(partial(is_quiet, imagined.home, platform))
    assert not spinning.is_over


@pytest.mark.parametrize("lane", LANES)
async def test_a_stopped_turn_leaves_no_process_thread_or_socket(real: Scene, lane: str) -> None:
    seen = await sweep_of_stops(real, halts(lane))
    assert seen.keys() == {"answered", "stopped"}


@pytest.mark.parametrize("lane", LANES)
@pytest.mark.parametrize("way", ENDS_OF_A_GATEWAY)
async def test_an_ended_gateway_leaves_no_process_thread_or_socket(real: Scene, way: str, lane: str) -> None:
    of_the_turn = real.tool

    async def tool(turn: TurnContext) -> None:
        await turn.start_background("sleep 300")  # it belongs to the session, and ends with the gateway
        await of_the_turn(turn)

    real.tool = tool
    seen = await sweep_of_lives(real, way, halts(lane))
    assert "cut" in seen
    assert seen.keys() <= {None, "unstarted", "cut", "answered"}
