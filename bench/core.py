"""The time of a stop: from its request, while a number of turns run, until `serve` returns with every mark on
the disk. Also the memory of turns and sessions.

*cut*: the grace is zero and every agent hangs. *cooperative*: every agent ends at the moment of the request;
its answer, its delivery and its synced journal are part of the figure. The bare limit is a Trio program that
cancels as many tasks of the same shape (an agent and three helpers on timers in a nursery each) and does
nothing else.

The conditions are those of `run`: Python's garbage collector is off from the stop on, and the log is written.
*embedded* leaves the collector on, in both programs. Each measurement has a process of its own; each round
measures both programs, one after the other, so that noise of the machine affects both.
"""

from __future__ import annotations

import gc
import logging
import multiprocessing
import os
import sqlite3
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TypeVar

import psutil
import trio
import trio.lowlevel
import trio.testing

from hermes_trio.base.messages import MessageEvent, SessionSource
from hermes_trio.config.schema import GatewayConfig, PlatformConfig, StreamingConfig
from hermes_trio.gateway.facade import RunningGateway
from hermes_trio.gateway.serve import Setup, serve
from hermes_trio.gateway.turn.context import TurnContext
from hermes_trio.host.loop.task_tree import task_tree
from hermes_trio.platform.contract import Outgoing, Traits

from .cheap_link import CheapLink
from .figures import Figure, show

T = TypeVar("T")

SIZES = (1, 10, 100, 1_000, 10_000)
CROWDED = 1_000
ROUNDS = 5
CONFIG = GatewayConfig(
    streaming=StreamingConfig(enabled=False),
    platforms={"crowd": PlatformConfig(allow_from="all", gateway_restart_notification=False)},
)


@dataclass(frozen=True, slots=True)
class Case:
    """One kind of stop."""

    count: int
    cut: bool = True
    collector: bool = False
    """True if Python's garbage collector stays on during the stop."""


def main() -> int:
    """Measure and print all figures; takes a few minutes."""
    print(f"load of the machine before: {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors\n")
    show("core", [*_stops(), *_memory()])
    return 0


def _stops() -> Iterator[Figure]:
    for count in SIZES:
        yield _stop(f"{count:,} turns cut", Case(count), at_most=3 if count == CROWDED else None)
        yield _stop(f"{count:,} turns cooperative", Case(count, cut=False))
    for count in SIZES[-2:]:
        yield _stop(f"{count:,} turns cut, embedded", Case(count, collector=True))


def _stop(name: str, case: Case, at_most: float | None = None) -> Figure:
    rounds = [(fresh(_ours, case), fresh(_bare, case)) for _ in range(ROUNDS if case.count <= CROWDED else 2)]
    ratio = median(ours / bare for (ours, _), bare in rounds)
    lost = max(lost for (_, lost), _ in rounds)
    return Figure(
        name,
        median(ours for (ours, _), _ in rounds),
        "ms",
        bare=median(bare for _, bare in rounds),
        ratio=ratio,
        goal=f"ratio <= {at_most:g}" if at_most else "all ends stored" if lost else "",
        met=False if lost else ratio <= at_most if at_most else None,
    )


def _memory() -> Iterator[Figure]:
    for name, answers, limit in (("a running turn", False, 100), ("an idle session", True, 50)):
        grown, tasks = fresh(_grown, answers)
        lives = ", ".join(f"{number:.0f} {kind}" for kind, number in sorted(tasks.items()))
        yield Figure(f"{name} ({lives})", grown, "KB", goal=f"<= {limit}", met=grown <= limit)


def fresh(measure: Callable[..., T], *args: object) -> T:
    """Run a measurement in a new process, and return its result."""
    with multiprocessing.get_context("spawn").Pool(1) as fresh:
        return fresh.apply(measure, args)


class Crowd(CheapLink):
    """A platform with `count` people, each of whom sends one message."""

    name, account, traits = "crowd", "main", Traits(typing=True)

    def __init__(self, count: int) -> None:
        self._count = count
        self._answered = 0
        self.all_answered = trio.Event()

    async def receive(self) -> AsyncIterator[MessageEvent]:
        for number in range(self._count):
            yield MessageEvent(SessionSource("crowd", str(number)), "work", message_id=str(number))
        await trio.sleep_forever()

    async def send(self, message: Outgoing) -> str:
        await trio.lowlevel.checkpoint()
        self._answered += 1
        if self._answered == self._count:
            self.all_answered.set()
        return message.key


class Agent:
    """An agent that works on all turns until `done` is set."""

    def __init__(self, count: int) -> None:
        self._left = count
        self.all_run, self.done = trio.Event(), trio.Event()

    async def __call__(self, turn: TurnContext) -> str:
        await turn.requesting()
        self._left -= 1
        if not self._left:
            self.all_run.set()
        await self.done.wait()
        return "Done."


@asynccontextmanager
async def _serving(home: Path, agent: Agent, crowd: Crowd) -> AsyncIterator[RunningGateway]:
    async with trio.open_nursery() as nursery:

        async def serving(task_status: trio.TaskStatus[RunningGateway]) -> None:
            await serve(Setup(home, CONFIG, agent=agent, adapters=[crowd]), task_status=task_status)

        yield await nursery.start(serving)


def _ours(case: Case) -> tuple[float, int]:
    """Return the milliseconds from the request to the end, and the number of turns without an end or mark."""

    async def run(home: Path) -> float:
        agent, crowd = Agent(case.count), Crowd(case.count)
        async with _serving(home, agent, crowd) as gateway:
            await agent.all_run.wait()
            _collect(case)
            began = time.perf_counter()
            gateway.stop(grace=0 if case.cut else 60)
            if not case.cut:
                agent.done.set()
        return (time.perf_counter() - began) * 1000

    with logged_home() as home:
        return trio.run(run, home), case.count - settled(home, case)


def _bare(case: Case) -> float:
    """Return the milliseconds in which a program with as many tasks of this shape is cancelled."""

    async def turn() -> None:
        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(trio.sleep, 1_000)
            await trio.sleep_forever()

    async def run() -> float:
        async with trio.open_nursery() as nursery:
            for _ in range(case.count):
                nursery.start_soon(turn)
            await trio.testing.wait_all_tasks_blocked()
            _collect(case)
            began = time.perf_counter()
            nursery.cancel_scope.cancel()
        return (time.perf_counter() - began) * 1000

    return trio.run(run)


def _collect(case: Case) -> None:
    gc.collect()
    if not case.collector:
        gc.disable()


def settled(home: Path, case: Case) -> int:
    """Return the number of turns that have the expected end on the disk."""
    db = sqlite3.connect(home / "gateway.db")
    outcome, mark = ("cut", "resume_pending") if case.cut else ("answered", None)
    (settled,) = db.execute(
        "SELECT count(*) FROM turns JOIN sessions USING (session_id) WHERE outcome = ? AND mark IS ?",
        (outcome, mark),
    ).fetchone()
    db.close()
    return int(settled)


def _grown(answers: bool) -> tuple[float, dict[str, float]]:
    """Return the kilobytes for each session in which a turn runs, or was answered; and its tasks."""

    async def run(home: Path) -> tuple[float, dict[str, float]]:
        agent, crowd = Agent(CROWDED), Crowd(CROWDED)
        before = resident()
        async with _serving(home, agent, crowd) as gateway:
            await agent.all_run.wait()
            if answers:
                agent.done.set()
                await crowd.all_answered.wait()
                await trio.testing.wait_all_tasks_blocked(0.5)
            grown = (resident() - before) / CROWDED
            tasks = Counter(line.name.split()[0].rpartition(".")[2] for line in task_tree())
            gateway.stop(grace=0)
        return grown, {name: n / CROWDED for name, n in tasks.items() if n >= CROWDED}

    with logged_home() as home:
        return trio.run(run, home)


@contextmanager
def logged_home() -> Iterator[Path]:
    """Yield a home, with a log in a file as `run` has it."""
    with tempfile.TemporaryDirectory(prefix="hermes-bench-") as name:
        logging.basicConfig(filename=Path(name) / "log", level=logging.INFO)
        yield Path(name) / "home"


def resident() -> float:
    """Return the resident memory of this process in kilobytes, after a garbage collection."""
    gc.collect()
    return psutil.Process().memory_info().rss / 1024
