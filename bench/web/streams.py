"""A thousand answers that are streamed at once: the words that arrive, what another client feels meanwhile,
and the time of an exit in the middle.

Words are offered at a fixed rate. The bare limit is the same clients at the same model, without the gateway:
it shows whether the clients or the model hold the words back.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import median

import psutil
import trio

from ..figures import Figure, at_most
from ..scripted_model import ScriptedModel, scripted_model
from .gateway import WITHIN, GatewayProcess, HealthPoll, cpu_of, gateway_process
from .stream_clients import StreamClients, stream_clients

STREAMS = 1_000
RATE = 6
"""Words per second of each stream."""
GOAL = 5_000
SECONDS = 10.0
"""For which the words are counted."""
SETTLING = 3.0
"""Seconds of words before they are counted."""
CUT_AFTER = 5
"""Seconds of the grace in which no stream ends."""


@dataclass(frozen=True, slots=True)
class _Measured:
    """The figures that were read in `SECONDS`."""

    rate: float
    delays: list[float]
    """Milliseconds of words on their way, in ascending order."""
    clients: float
    """The percentage of a core that the clients used."""
    model: float
    gateway: float
    others: float
    """The same for all else that runs on the machine."""
    open: int
    """The number of streams that are open at the end."""


def figures() -> Iterator[Figure]:
    """Measure everything; takes about a minute and a half."""
    with scripted_model() as model:
        with _streaming(model, model.port) as (clients, _):
            bare = trio.run(_measure, model, clients)
        with gateway_process(model) as gateway:
            yield from _words(model, gateway, bare)
        with gateway_process(model, grace=CUT_AFTER) as gateway, _streaming(model, gateway.port):
            took = trio.run(gateway.exit) - CUT_AFTER
            yield _exit_figure(f"exit, grace {CUT_AFTER} s, beyond the grace", took)


def _words(model: ScriptedModel, gateway: GatewayProcess, bare: _Measured) -> Iterator[Figure]:
    health = HealthPoll(every=0.005)
    trio.run(_poll, gateway.port, health, 2.0)
    idle = health.taken()
    with _streaming(model, gateway.port) as (clients, first):
        ours = trio.run(_measure, model, clients, gateway, health)
        took = trio.run(gateway.exit)
    name = f"{STREAMS:,} streams"
    yield Figure(f"{name}, from the first to the last that the model is asked for", first, "s")
    yield Figure(
        f"{name}, words of {STREAMS * RATE:,} offered",
        ours.rate,
        "1/s",
        bare=bare.rate,
        ratio=ours.rate / bare.rate,
        goal=f">= {GOAL:,}",
        met=ours.rate >= GOAL and ours.open == STREAMS,
    )
    for percent in (50, 99):
        at = percent / 100
        there = bare.delays[int(len(bare.delays) * at)]
        yield Figure(
            f"{name}, a word on its way, p{percent}",
            ours.delays[int(len(ours.delays) * at)],
            "ms",
            bare=there,
        )
    yield Figure(f"{name}, GET /health, p50", median(health.took), "ms", bare=median(idle))
    yield at_most(f"{name}, GET /health, longest", max(health.took), "ms", 50, bare=max(idle))
    yield Figure(f"{name}, part of a core, gateway", ours.gateway, "%")
    yield Figure(f"{name}, part of a core, clients", ours.clients, "%", bare=bare.clients)
    yield Figure(f"{name}, part of a core, model", ours.model, "%", bare=bare.model)
    yield Figure(f"{name}, part of a core, all else on the machine", ours.others, "%", bare=bare.others)
    yield _exit_figure("exit, grace 0", took)


def _exit_figure(name: str, took: float) -> Figure:
    return at_most(f"{STREAMS:,} streams, {name}", took, "s", 0.5)


@contextmanager
def _streaming(model: ScriptedModel, port: int) -> Iterator[tuple[StreamClients, float]]:
    """Run the clients during the block, which begins when words have been coming for a moment. Also yield the
    seconds until the model was asked for all of them."""
    model.times()
    with stream_clients(port, STREAMS, f"words {RATE} {WITHIN}") as clients:
        clients.counted()  # they are connected
        began = time.monotonic()
        while model.asked() < STREAMS:
            if time.monotonic() > began + WITHIN:
                raise TimeoutError("the model is not asked for every stream")
            time.sleep(0.05)
        asked = model.times()
        model.begin_words()
        time.sleep(SETTLING)
        yield clients, max(one.head for one in asked.values()) - min(one.head for one in asked.values())


async def _measure(
    model: ScriptedModel,
    clients: StreamClients,
    gateway: GatewayProcess | None = None,
    health: HealthPoll | None = None,
) -> _Measured:
    """Count words; meanwhile poll the health of the gateway, if there is one."""
    async with trio.open_nursery() as nursery:
        if gateway and health:
            nursery.start_soon(health.run, gateway.port)
        pids = [model.pid, gateway.process.pid] if gateway else [model.pid]
        before, used, busy = clients.counted(), [cpu_of(pid) for pid in pids], _busy()
        await trio.sleep(SECONDS)
        after, used_after, busy_after = clients.counted(), [cpu_of(pid) for pid in pids], _busy()
        nursery.cancel_scope.cancel()
    took = after.at - before.at
    parts = [(after.cpu - before.cpu) / took * 100]
    parts += [(late - early) / took * 100 for early, late in zip(used, used_after, strict=True)]
    return _Measured(
        after.words / took,
        sorted(after.delays),
        clients=parts[0],
        model=parts[1],
        gateway=parts[2] if gateway else 0.0,
        others=(busy_after - busy) / took * 100 - sum(parts),
        open=after.open,
    )


def _busy() -> float:
    """Return the seconds in which cores of the machine were busy."""
    times = psutil.cpu_times()
    return sum(times) - times.idle - getattr(times, "iowait", 0.0)


async def _poll(port: int, health: HealthPoll, seconds: float) -> None:
    with trio.move_on_after(seconds):
        await health.run(port)
