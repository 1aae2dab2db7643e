"""How much longer than needed a stop takes: from the moment it is asked for, with so many turns running,
to the moment `serve` returns with every mark on the disk.

*cut*: the grace is zero and every agent hangs. *cooperative*: every agent is done in the moment the stop
is asked for. Beside them a bare Trio program that cancels as many tasks of the same shape (an agent and
three helpers on timers in a nursery each) and does nothing else.
"""

from __future__ import annotations

import gc
import sqlite3
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from statistics import median

import psutil
import trio
import trio.lowlevel
import trio.testing

from hermes_trio.config import GatewayConfig, PlatformConfig, StreamingConfig
from hermes_trio.gateway.gateway import Gateway
from hermes_trio.gateway.serve import serve
from hermes_trio.gateway.turn import Turn
from hermes_trio.messages import MessageEvent, SessionSource
from hermes_trio.platform import Link, Outgoing, Traits

from .figures import Figure, show

SIZES = (1, 10, 100, 1_000, 10_000)
CONFIG = GatewayConfig(
    streaming=StreamingConfig(enabled=False),
    platforms={"crowd": PlatformConfig(allow_from="all", gateway_restart_notification=False)},
)


def main() -> int:
    """Measure and print everything; takes a few minutes."""
    figures = []
    for count in SIZES:
        rounds = 5 if count <= 1_000 else 1
        bare = median(trio.run(_bare, count) for _ in range(rounds))
        for name, cut in (("cut", True), ("cooperative", False)):
            measured = [trio.run(_ours, count, cut) for _ in range(rounds)]
            ours = median(overshoot for overshoot, _ in measured)
            goal = 3.0 if cut and count == 1_000 else None
            figures.append(
                Figure(
                    f"{count:,} turns {name}",
                    ours,
                    "ms",
                    bare=bare,
                    ratio=ours / bare,
                    goal=f"ratio <= {goal:g}" if goal else "",
                    met=ours / bare <= goal if goal else None,
                )
            )
            if cut and count == 1_000:
                memory = max(per_turn for _, per_turn in measured)  # later rounds find freed memory
                figures.append(
                    Figure("a running turn, memory", memory, "KB", goal="<= 100", met=memory <= 100)
                )
    show("drain", figures)
    return 0


class Crowd:
    """A platform with as many people as it takes, each of whom says one thing."""

    name, account, traits = "crowd", "main", Traits(typing=True)

    def __init__(self, count: int) -> None:
        self._count = count

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[Link]:
        yield self

    async def receive(self) -> AsyncIterator[MessageEvent]:
        for number in range(self._count):
            yield MessageEvent(SessionSource("crowd", str(number)), "work", message_id=str(number))
        await trio.sleep_forever()

    async def send(self, message: Outgoing) -> str:
        await trio.lowlevel.checkpoint()
        return message.key

    async def edit(self, chat_id: str, message_id: str, text: str) -> None:
        await trio.lowlevel.checkpoint()

    async def delete(self, chat_id: str, message_id: str) -> None:
        await trio.lowlevel.checkpoint()

    async def typing(self, chat_id: str, thread_id: str | None) -> None:
        await trio.lowlevel.checkpoint()

    async def find(self, chat_id: str, key: str) -> str | None:
        await trio.lowlevel.checkpoint()
        return None


async def _ours(count: int, cut: bool) -> tuple[float, float]:
    """Milliseconds from the stop to its end, and kilobytes for each running turn."""
    done, running = trio.Event(), 0
    all_run = trio.Event()

    async def agent(turn: Turn) -> str:
        nonlocal running
        await turn.requesting()
        running += 1
        if running == count:
            all_run.set()
        await done.wait()
        return "Done."

    with tempfile.TemporaryDirectory(prefix="hermes-bench-") as name:
        home = Path(name) / "home"
        before = _resident()
        async with trio.open_nursery() as nursery:

            async def serving(task_status: trio.TaskStatus[Gateway]) -> None:
                await serve(home, CONFIG, agent=agent, adapters=[Crowd(count)], task_status=task_status)

            gateway = await nursery.start(serving)
            await all_run.wait()
            grown = _resident() - before
            began = time.perf_counter()
            gateway.stop(grace=0 if cut else 60)
            if not cut:
                done.set()
        overshoot = (time.perf_counter() - began) * 1000
        _check(home, count, "cut" if cut else "answered")
    return overshoot, grown / count


async def _bare(count: int) -> float:
    """Milliseconds in which a program with as many tasks of this shape is cancelled."""

    async def turn() -> None:
        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(trio.sleep, 1_000)
            await trio.sleep_forever()

    async with trio.open_nursery() as nursery:
        for _ in range(count):
            nursery.start_soon(turn)
        await trio.testing.wait_all_tasks_blocked()
        began = time.perf_counter()
        nursery.cancel_scope.cancel()
    return (time.perf_counter() - began) * 1000


def _check(home: Path, count: int, outcome: str) -> None:
    """A figure counts only if all of it is on the disk."""
    db = sqlite3.connect(home / "gateway.db")
    (ended,) = db.execute("SELECT count(*) FROM turns WHERE outcome = ?", (outcome,)).fetchone()
    (marked,) = db.execute("SELECT count(*) FROM sessions WHERE mark = 'resume_pending'").fetchone()
    db.close()
    assert (ended, marked) == (count, count if outcome == "cut" else 0)


def _resident() -> float:
    gc.collect()
    return psutil.Process().memory_info().rss / 1024
