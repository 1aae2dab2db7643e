"""The cost of a host: the same turns by `gateway.say` in a program on Trio, on asyncio, and in one that
blocks; and the time in which a program gets rid of thousands of turns.

    python -m bench hosts                    # all hosts
    python -m bench turn --host guest        # this host beside Trio

Each round measures the hosts, one after the other, in processes of their own. The bare value is that on Trio,
where nothing crosses a border.

*turns cut*: every agent hangs, and the program leaves the block. The time ends when the block is left.
Python's garbage collector is on, as the program has it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import anyio
import trio

from hermes_trio import Gateway, Turn, blocking, open_gateway
from hermes_trio.gateway.ending.endings_table import MARGIN

from .core import CONFIG, Agent, Case, Crowd, fresh, logged_home, settled
from .figures import Figure, show

TURNS = {1: 300, 50: 1500}
"""Number of measured turns, by the number of turns at once."""
ROUNDS = 5
PIECES = 10
LIMIT = 1.5
BARE = "trio"
STOPPED = (1_000, 10_000)
"""Numbers of turns that run when the program leaves the gateway."""

Cost = tuple[float, float]
"""Milliseconds of a turn: of time, and of CPU."""


async def answer(turn: Turn) -> None:
    """Answer in pieces, with a step of the loop before each."""
    for number in range(PIECES):
        await trio.lowlevel.checkpoint()
        await turn.say(f"piece {number} ")


def main(hosts: Sequence[str] = ()) -> int:
    """Measure and print the figures of these hosts, or of all; takes some minutes."""
    hosts = list(dict.fromkeys((BARE, *(hosts or HOSTS))))
    show("hosts", [*_turns(hosts), *_stops(hosts)])
    return 0


def _stops(hosts: Sequence[str]) -> Iterator[Figure]:
    for count in STOPPED:
        for host in hosts:
            if host not in LOOPS:  # it ends as on Trio, in its thread
                continue
            took, lost = fresh(_stopped, host, count)
            goal = f"<= {MARGIN:g}" if not lost else f"<= {MARGIN:g}; {lost:,} ends are not stored"
            name = f"{count:,} turns cut on {host}"
            yield Figure(name, took, "s", goal=goal, met=took <= MARGIN and not lost)


def _turns(hosts: Sequence[str]) -> Iterator[Figure]:
    for count, turns in TURNS.items():
        rounds = [[fresh(_measured, host, count, turns) for host in hosts] for _ in range(ROUNDS)]
        for place, host in enumerate(hosts):
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


def _stopped(host: str, count: int) -> tuple[float, int]:
    """Return the seconds in which a program leaves a gateway, and the number of turns without a stored
    end."""
    case = Case(count, collector=True)
    with logged_home() as home:
        return LOOPS[host](_leave, home, count), count - settled(home, case)


async def _leave(home: Path, count: int) -> float:
    agent, crowd = Agent(count), Crowd(count)
    async with open_gateway(home, CONFIG, agent=agent, adapters=[crowd]):
        while not agent.all_run.is_set():  # noqa: ASYNC110 - an event of Trio; the host may be asyncio
            await anyio.sleep(0.1)
        began = time.perf_counter()
    return time.perf_counter() - began


LOOPS: dict[str, Callable[..., Any]] = {
    "trio": trio.run,
    "guest": lambda function, *args: asyncio.run(function(*args)),
}
HOSTS: dict[str, Callable[[Path, int, int], Cost]] = {
    **{name: partial(run, _on_a_loop) for name, run in LOOPS.items()},
    "blocking": _blocking,
}
