"""Several gateways on one PostgreSQL server, beside one with a file: turns through real sockets, and the
times until a killed gateway is taken over.

The server is a new one on this machine, and each commit waits for its disk. All gateways, the server, the
model and the clients share the processors of one machine: the figures say what a turn costs, and that more
gateways do not cost more. They do not say what more machines would add.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from statistics import median

import psutil
import psycopg
import trio

from tests.postgres import DURABLE, PostgresServer, postgres_server, programs_of_postgres

from .figures import Figure, show
from .scripted_model import ScriptedModel, scripted_model
from .web.gateway import WITHIN, GatewayProcess, gateway_process, talk

LEASE = 2.0
"""Seconds; the shortest that a configuration allows."""
LOOKS = 10
"""The number of looks of a gateway at the others in a lease."""
AT_ONCE = 48
FILE = "a file"

_schemas = itertools.count(1)


@dataclass(frozen=True, slots=True)
class Extent:
    """How much is measured."""

    rounds: int = 3
    turns: int = 384
    kills: int = 12
    nodes: Sequence[int] = (1, 2, 3)


QUICK = Extent(rounds=1, turns=96, kills=1, nodes=(1, 2))


def main(options: Sequence[str] = ()) -> int:
    """Measure and print; takes about three minutes, with `--quick` a quarter of one."""
    if programs_of_postgres() is None:
        print("cluster: left out, because PostgreSQL is not installed (Debian: apt install postgresql)")
        return 0
    extent = QUICK if "--quick" in options else Extent()
    with postgres_server(DURABLE) as server, scripted_model() as model:
        show("cluster", [*_turns(server, model, extent), *_take_overs(server, model, extent)])
    return 0


# --- turns -------------------------------------------------------------------------------------------


def _turns(server: PostgresServer, model: ScriptedModel, extent: Extent) -> Iterator[Figure]:
    """Measure turns with a file and with each number of gateways, one after the other in each round."""
    rounds = []
    for _ in range(extent.rounds):
        measured = {FILE: _cost(server, model, extent, ())}
        for number in extent.nodes:
            measured[f"PostgreSQL, gateways: {number}"] = _cost(server, model, extent, _nodes(server, number))
        rounds.append(measured)
    for name in rounds[0]:
        for at, (what, unit) in enumerate((("turns per second", "1/s"), ("CPU of a turn", "ms"))):
            values = [measured[name][at] for measured in rounds]
            bare = [measured[FILE][at] for measured in rounds]
            ratio = median(one / limit for one, limit in zip(values, bare, strict=True))
            yield Figure(f"{name}, {what}", median(values), unit, bare=median(bare), ratio=ratio)


def _cost(
    server: PostgresServer, model: ScriptedModel, extent: Extent, nodes: Sequence[Mapping[str, object]]
) -> tuple[float, float]:
    """Return the turns per second, and the milliseconds of CPU of one: those of the gateways and the
    server."""
    with ExitStack() as stack:
        gateways = [stack.enter_context(gateway_process(model, database=one)) for one in nodes or ({},)]
        trio.run(_talk, gateways, AT_ONCE)  # the sessions exist, and imports are done
        before, began = _cpu(server, gateways), time.monotonic()
        trio.run(_talk, gateways, extent.turns)
        took, used = time.monotonic() - began, _cpu(server, gateways) - before
    return extent.turns / took, used / extent.turns * 1000


async def _talk(gateways: Sequence[GatewayProcess], turns: int) -> None:
    """Run turns at once, as many at each gateway."""
    each = AT_ONCE // len(gateways)
    async with trio.open_nursery() as nursery:
        for number, gateway in enumerate(gateways):
            share = partial(talk, name=f"talk-{number}")
            nursery.start_soon(share, gateway.port, each, turns // len(gateways))


def _cpu(server: PostgresServer, gateways: Sequence[GatewayProcess]) -> float:
    pid = int((server.directory / "data" / "postmaster.pid").read_text().split()[0])
    serving = [psutil.Process(pid), *psutil.Process(pid).children()]
    times = [one.cpu_times() for one in serving]
    return sum(one.user + one.system for one in times) + sum(gateway.cpu() for gateway in gateways)


def _nodes(server: PostgresServer, number: int) -> list[dict[str, object]]:
    """Return the configurations of gateways that share a new store."""
    common = {"url": server.url(), "schema": f"bench_{next(_schemas)}", "lease": LEASE}
    return [{**common, "node": f"node-{one}"} for one in range(number)]


# --- take-overs --------------------------------------------------------------------------------------


def _take_overs(server: PostgresServer, model: ScriptedModel, extent: Extent) -> Iterator[Figure]:
    """Kill one of two gateways again and again, and measure the time until the other one ends its life."""
    stays, dies = _nodes(server, 2)
    took = []
    with gateway_process(model, database=stays):
        for _ in range(extent.kills):
            with gateway_process(model, database=dies) as gateway:
                gateway.process.kill()
                killed = time.monotonic()
                gateway.process.wait()
            took.append(_taken_over(server, str(dies["schema"])) - killed)
    took.sort()
    most = LEASE + 2 * LEASE / LOOKS
    for name, value in (("shortest", took[0]), ("median", median(took)), ("longest", took[-1])):
        goal = f"<= {most:g}, lease and two looks" if name == "longest" else ""
        met = value <= most if goal else None
        yield Figure(f"take-over, lease {LEASE:g} s, {name} of {len(took)}", value, "s", goal=goal, met=met)


def _taken_over(server: PostgresServer, schema: str) -> float:
    """Wait until only one life goes on, and return the time."""
    query = f"SELECT count(*) FROM {schema}.lives WHERE over_at IS NULL"  # noqa: S608 - a name of ours
    until = time.monotonic() + WITHIN
    with psycopg.connect(server.conninfo, autocommit=True) as link:
        while link.execute(query.encode()).fetchone() != (1,):
            if time.monotonic() > until:
                raise TimeoutError("a killed gateway is not taken over")
            time.sleep(0.01)
    return time.monotonic()
