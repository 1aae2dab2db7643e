"""The cost of a host: the same turns by `gateway.say` in a program on Trio, on asyncio, and in one that
blocks.

Each round measures the three, one after the other, in processes of their own. The bare value is that on Trio,
where nothing crosses a border.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median

import anyio
import trio

from hermes_trio import Gateway, Turn, blocking, open_gateway

from .core import fresh, logged_home
from .figures import Figure, show

TURNS = {1: 300, 50: 1500}
"""Number of measured turns, by the number of turns at once."""
ROUNDS = 5
PIECES = 10
LIMIT = 1.5

Cost = tuple[float, float]
"""Milliseconds of a turn: of time, and of CPU."""


async def answer(turn: Turn) -> None:
    """Answer in pieces, with a step of the loop before each."""
    for number in range(PIECES):
        await trio.lowlevel.checkpoint()
        await turn.say(f"piece {number} ")


def main() -> int:
    """Measure and print all figures; takes a minute."""
    show("hosts", list(_figures()))
    return 0


def _figures() -> Iterator[Figure]:
    for count, turns in TURNS.items():
        rounds = [[fresh(_measured, host, count, turns) for host in HOSTS] for _ in range(ROUNDS)]
        for place, host in enumerate(HOSTS):
            for which, name in enumerate(("time", "CPU")):
                ratio = median(costs[place][which] / costs[0][which] for costs in rounds)
                is_goal = host == "guest"
                yield Figure(
                    f"{count} at once on {host}: {name} of a turn",
                    median(costs[place][which] for costs in rounds),
                    "ms",
                    bare=median(costs[0][which] for costs in rounds),
                    ratio=ratio,
                    goal=f"ratio <= {LIMIT}" if is_goal else "",
                    met=ratio <= LIMIT if is_goal else None,
                )


def _measured(host: str, count: int, turns: int) -> Cost:
    with logged_home() as home:
        return HOSTS[host](home, count, turns)


def _cost(turns: int, began: Cost) -> Cost:
    return (time.perf_counter() - began[0]) / turns * 1000, (time.process_time() - began[1]) / turns * 1000


async def _on_a_loop(home: Path, count: int, turns: int) -> Cost:
    async with open_gateway(home, agent=answer) as gateway:
        await gateway.say("0", "hello")
        began = time.perf_counter(), time.process_time()
        async with anyio.create_task_group() as tasks:
            for number in range(count):
                tasks.start_soon(_talk, gateway, str(number), turns // count)
        return _cost(turns, began)


async def _talk(gateway: Gateway, session: str, turns: int) -> None:
    for _ in range(turns):
        await gateway.say(session, "hello")


def _blocking(home: Path, count: int, turns: int) -> Cost:
    with blocking.open_gateway(home, agent=answer) as gateway, ThreadPoolExecutor(count) as threads:
        gateway.say("0", "hello")
        began = time.perf_counter(), time.process_time()

        def talk(number: int) -> None:
            for _ in range(turns // count):
                gateway.say(str(number), "hello")

        list(threads.map(talk, range(count)))
        return _cost(turns, began)


HOSTS: dict[str, Callable[[Path, int, int], Cost]] = {
    "trio": lambda home, count, turns: trio.run(_on_a_loop, home, count, turns),
    "guest": lambda home, count, turns: asyncio.run(_on_a_loop(home, count, turns)),
    "blocking": _blocking,
}
