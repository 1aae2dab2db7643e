"""Nothing outlives its turn, wherever in it the end comes.

A turn with everything in it (text that grows, a typing sign, notices, rows, a tool that is a command) is
ended at its first checkpoint, at its second, and so on until it is over before its end comes. A checkpoint
is any halt of the session's task, of whoever runs below it, or of the lane. Each time this process holds
afterwards what it held before, no more and no less, and disk and chat tell of exactly one end.
"""

from __future__ import annotations

import gc
import itertools
import math
import os
import random
import sqlite3
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, closing, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trio
from trio.testing import MockClock

from hermes_trio.base.events import ToolCompleted, ToolStarted
from hermes_trio.base.world import World
from hermes_trio.config.schema import AgentConfig, GatewayConfig, StreamingConfig
from hermes_trio.embed import open_gateway
from hermes_trio.gateway.commands.stop import stop_turn
from hermes_trio.gateway.facade import Gateway
from hermes_trio.gateway.serve import Guarded
from hermes_trio.gateway.turn.context import TurnContext
from hermes_trio.host.loop.worker import Worker, inline_worker, worker_thread
from hermes_trio.host.processes.guard import open_guard
from hermes_trio.journal.reader import read_run
from hermes_trio.platform.contract import Adapter, Traits
from hermes_trio.state.tables.transcript import ToolCall
from hermes_trio.state.tables.turns import Outcome
from hermes_trio.testing import LoopbackAdapter, LoopbackServer, MemoryPlatform, open_loopback
from hermes_trio.testing.checkpoints import Countdown, at_halt
from tests.gateway.stopping.orphans import Held, held, tasks
from tests.logs import capture_logs
from tests.stage import KEY, everyone, no_guard

# A hundred lives, one after the other, on whatever disk there is.
pytestmark = pytest.mark.timeout(900)

Platform = MemoryPlatform | LoopbackServer

TRAITS = Traits(edits=True, typing=True)
PIECES = "I", " begin", "."
ANSWER = "I begin.\n\nDone."
INTERRUPTED = "(interrupted)"
MOST_HALTS = 500

THE_GRACE_IS_OVER = "the grace is over"
THERE_IS_NO_GRACE = "there is no grace"
CANCELLED_AROUND = "it is cancelled from outside"
ENDS_OF_A_GATEWAY = THE_GRACE_IS_OVER, THERE_IS_NO_GRACE, CANCELLED_AROUND

LANES = ["some", pytest.param("all", marks=pytest.mark.soak)]

FOLLOWS: dict[str | None, tuple[str, set[str | None]]] = {
    None: ("pending", {None, "cut"}),
    "unstarted": ("pending", {"cut"}),
    "cut": ("of_turn", {"cut"}),
    "answered": ("done", {"completed"}),
    "stopped": ("done", {"cancelled"}),
}
"""What an outcome means for the person's message, and what the journal may say; None is no turn at all."""


@dataclass
class Scene:
    """A place where the same turn is run again and again."""

    home: Path
    config: GatewayConfig
    opened_platform: Callable[[], AbstractAsyncContextManager[tuple[Platform, Adapter]]]
    tool: Callable[[TurnContext], Awaitable[None]]
    worker: Worker
    guarded: Guarded
    pace: float
    """Seconds between two pieces of the answer."""
    look_every: float
    patience: float
    """Seconds in which threads may go that nobody waits for."""
    world: World = field(default_factory=World)
    visits: list[str] = field(default_factory=list)
    """What has become of the agent, as a context."""

    async def agent(self, turn: TurnContext) -> str:
        for piece in PIECES:
            await turn.say(piece)
            await trio.sleep(self.pace)
        call = ToolCall("call-1", "terminal", '{"command": "make"}')
        await turn.calls("", call)
        await turn.emit(ToolStarted(call.name, call.id, "make"))
        await self.tool(turn)
        await turn.emit(ToolCompleted(call.name, call.id, "make"))
        await turn.result(call, "made")
        await turn.say("Done.")
        await trio.sleep(self.pace)
        return turn.text

    def life(self, home: Path, adapter: Adapter) -> AbstractAsyncContextManager[Gateway]:
        self.visits.clear()
        return open_gateway(
            home,
            self.config,
            agent=self._opened_agent(),
            adapters=[adapter],
            world=self.world,
            worker=self.worker,
            guarded=self.guarded,
        )

    @asynccontextmanager
    async def _opened_agent(self) -> AsyncIterator[Callable[[TurnContext], Awaitable[str]]]:
        self.visits.append("entered")
        try:
            yield self.agent
        finally:
            await trio.sleep(self.pace)  # noqa: ASYNC102 - as who closes a client does
            self.visits.append("left")

    async def at_rest(self) -> Held:
        """What is held when nothing comes or goes any more."""
        now, before = held(), None
        while now != before:
            await trio.sleep(self.patience / 20)
            now, before = held(), now
        return now

    async def holds_only(self, before: Held) -> None:
        with trio.move_on_after(self.patience):
            while held() != before:  # noqa: ASYNC110 - threads set no event when they go
                await trio.sleep(self.look_every)
        now = held()
        assert (now.beyond(before), before.beyond(now)) == ([], [])

    async def until(self, condition: Callable[[], object]) -> None:
        with trio.fail_after(60):
            while not condition():  # noqa: ASYNC110 - there is no event for all that is waited for
                await trio.sleep(self.look_every)


@pytest.fixture(autouse=True)
def nothing_is_collected() -> Iterator[None]:
    """What only the garbage collector closes, at some time, was left open."""
    gc.disable()
    yield
    gc.enable()


@asynccontextmanager
async def memory() -> AsyncIterator[tuple[Platform, Adapter]]:
    platform = MemoryPlatform(traits=TRAITS)
    yield platform, platform


@asynccontextmanager
async def sockets() -> AsyncIterator[tuple[Platform, Adapter]]:
    async with open_loopback("memory", traits=TRAITS) as platform:
        yield platform, LoopbackAdapter(platform.port, name="memory", traits=TRAITS)


def config(*, notify: float, warn: float, edit: float) -> GatewayConfig:
    return msgspec.structs.replace(
        everyone(
            AgentConfig(gateway_notify_interval=notify, gateway_timeout_warning=warn, gateway_timeout=60)
        ),
        streaming=StreamingConfig(edit_interval=edit),
    )


async def silence(_: TurnContext) -> None:
    await trio.sleep(8)


@pytest.fixture
def imagined(tmp_path: Path) -> Scene:
    """On the clock that jumps, and to the step: nothing has a moment more than it needs."""
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
    """With threads, sockets and processes."""
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


# How it looks afterwards.


def stored(home: Path, query: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(home / "gateway.db")) as db:
        return db.execute(query).fetchall()


def is_quiet(home: Path, platform: Platform) -> bool:
    """Whether every message has had its turn, and the chat has all that came of it."""
    messages = stored(home, "SELECT count(*) FROM inbox")
    return (
        messages == stored(home, "SELECT count(*) FROM turns WHERE ended_at IS NOT NULL")
        and not stored(home, "SELECT 1 FROM outbox WHERE done_at IS NULL")
        and not any(is_open(text) for text in platform.chat("42").texts)
    )


def is_open(text: str) -> bool:
    """Whether this goes on, by what a person sees of it."""
    return "▉" in text or "Still working" in text


def check_end(home: Path, texts: list[str]) -> str | None:
    """The newest message has had one end or none, and everything else tells of the same; returns it."""
    ((inbox_id, message),) = stored(home, "SELECT max(inbox_id), state FROM inbox")
    turns = stored(home, "SELECT outcome, run_id FROM turns ORDER BY turn_id")[inbox_id - 1 :]
    assert len(turns) <= 1
    outcome: str | None
    outcome, run_id = turns[0] if turns else (None, "*")
    expected, terminal_states = FOLLOWS[outcome]
    assert message == expected
    journals = {terminal_state(path) for path in home.glob(f"journal/*/{run_id}.jsonl")}
    assert journals <= terminal_states
    assert journals or outcome is None
    assert stored(home, "SELECT * FROM processes WHERE ended_at IS NULL") == []
    assert stored(home, "SELECT * FROM outbox WHERE done_at IS NULL") == []
    assert not any(is_open(text) for text in texts)
    answers = [text for text in texts if text.startswith(PIECES[0])]
    if outcome == "answered":
        assert answers == [ANSWER]
    else:
        assert len(answers) <= 1
        assert all(text.endswith(INTERRUPTED) for text in answers)
    return outcome


def terminal_state(journal: Path) -> str | None:
    """What a journal says of its end; one may have been opened for a run that was not begun."""
    reading = read_run(journal.parent.parent, journal.parent.name, journal.stem)
    assert reading.complete
    ends = [record for record in reading.records if record.terminal]
    assert ends == reading.records[-1:], "one end, and nothing behind it"
    return ends[0].terminal_state if ends else None


@contextmanager
def without_complaints() -> Iterator[None]:
    with capture_logs() as logs:
        yield
    assert [entry for entry in logs if entry["log_level"] not in ("debug", "info")] == []


# The sweeps.


def halts(lane: str) -> Iterator[int]:
    """At which halts the end comes: at each of them, or in the quick lane at some, and others each time."""
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
    """That of the work, in this moment."""
    for task in tasks():
        if task.name.startswith("session ") and task.parent_nursery is not None:
            task.parent_nursery.cancel_scope.deadline = -math.inf


async def sweep_of_stops(scene: Scene, halts: Iterator[int]) -> Counter[object]:
    """One life, and a turn after the other that a person stops; how they ended."""
    home, seen = scene.home / "home", Counter[object]()
    async with scene.opened_platform() as (platform, adapter), scene.life(home, adapter) as gateway:
        texts = platform.chat("42").messages
        before = None
        for halt in itertools.chain([MOST_HALTS], halts):
            shown = len(texts)
            act = partial(stop_turn, gateway.work.running, KEY.format("42"), Outcome.STOPPED)
            with without_complaints(), at_halt(halt, act, whose=is_of_the_turn) as cut:
                await platform.says("Make it.")
                await scene.until(partial(is_quiet, home, platform))
            is_first = before is None  # nobody stops it, and it leaves a lane and an actor
            before = before or await scene.at_rest()
            await scene.holds_only(before)
            # Only now: the last record follows the commit, and its file is closed behind it.
            seen[check_end(home, [message.text for message in texts[shown:]])] += 1
            if not (is_first or cut.is_over):
                break
        assert not cut.is_over, "the last turn was over before its end came"
        assert scene.visits == ["entered"]
    assert scene.visits == ["entered", "left"]
    print(f"{halt} halts: {dict(seen)}")
    return seen


async def sweep_of_lives(scene: Scene, way: str, halts: Iterator[int]) -> Counter[object]:
    """A turn in each of many lives, which end with it or before; how the turns ended."""
    seen = Counter[object]()
    before = None
    for halt in itertools.chain([MOST_HALTS], halts):
        home = scene.home / f"halt-{halt}"
        async with scene.opened_platform() as (platform, adapter):
            with without_complaints():
                cut = await life_that_ends(scene, home, platform, adapter, way, halt)
            texts = platform.chat("42").texts
        assert scene.visits == ["entered", "left"]
        seen[check_end(home, texts)] += 1
        if before is None:  # threads of the test before this one may have been on their way
            before = await scene.at_rest()
            continue
        await scene.holds_only(before)
        if not cut.is_over:
            break
    assert not cut.is_over, "the last turn was over before its end came"
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


async def test_a_stop_at_any_checkpoint_leaves_what_was_there(
    imagined: Scene, autojump_clock: MockClock
) -> None:
    seen = await sweep_of_stops(imagined, halts("all"))
    assert seen.keys() == {"answered", "stopped"}


@pytest.mark.parametrize("way", ENDS_OF_A_GATEWAY)
async def test_an_end_of_the_gateway_at_any_checkpoint_leaves_nothing(
    imagined: Scene, autojump_clock: MockClock, way: str
) -> None:
    seen = await sweep_of_lives(imagined, way, halts("all"))
    assert {"cut", "answered"} <= seen.keys() <= {None, "unstarted", "cut", "answered"}


async def test_cancelled_from_outside_at_any_step_of_its_start_it_leaves_nothing(
    imagined: Scene, autojump_clock: MockClock
) -> None:
    before = held()
    for halt in range(1, MOST_HALTS):
        home = imagined.home / f"halt-{halt}"
        async with imagined.opened_platform() as (platform, adapter):
            with (
                without_complaints(),
                trio.CancelScope() as around,
                at_halt(halt, around.cancel, whose=is_of_the_gateway) as cut,
            ):
                async with imagined.life(home, adapter):
                    await imagined.until(lambda: platform.connected)
        await imagined.holds_only(before)
        assert imagined.visits in ([], ["entered", "left"])
        if not cut.is_over:
            break
    assert not cut.is_over, "the last one had started before"
    print(f"{halt} halts")


async def test_who_waits_for_silence_sleeps_until_it_is_long_enough(
    imagined: Scene, autojump_clock: MockClock
) -> None:
    imagined.pace, moment = 0, 0.1
    assert (moment + 4) - moment < 4, "by a bit, which no clock can show"
    async with imagined.opened_platform() as (platform, adapter), imagined.life(imagined.home, adapter):
        await trio.sleep_until(moment)
        with at_halt(MOST_HALTS, partial(autojump_clock.jump, 1), whose=is_of_the_turn) as spinning:
            await platform.says("Make it.")
            await imagined.until(partial(is_quiet, imagined.home, platform))
    assert not spinning.is_over


@pytest.mark.parametrize("lane", LANES)
async def test_a_stop_leaves_no_process_thread_or_socket(real: Scene, lane: str) -> None:
    seen = await sweep_of_stops(real, halts(lane))
    assert seen.keys() == {"answered", "stopped"}


@pytest.mark.parametrize("lane", LANES)
@pytest.mark.parametrize("way", ENDS_OF_A_GATEWAY)
async def test_an_end_of_the_gateway_leaves_no_process_thread_or_socket(
    real: Scene, way: str, lane: str
) -> None:
    of_the_turn = real.tool

    async def tool(turn: TurnContext) -> None:
        await turn.start_background("sleep 300")  # of the session, and ends with the gateway
        await of_the_turn(turn)

    real.tool = tool
    seen = await sweep_of_lives(real, way, halts(lane))
    assert "cut" in seen
    assert seen.keys() <= {None, "unstarted", "cut", "answered"}
