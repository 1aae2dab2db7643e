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

import trio

from .api_gateway import WITHIN, GatewayProcess, HealthPoll, cpu_of, gateway_process
from .figures import Figure, at_most
from .stream_clients import Counted, StreamClients, stream_clients
from .timed_model import TimedModel, timed_model

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
    """What was read in `SECONDS`."""

    rate: float
    delays: list[float]
    """Milliseconds of words on their way, in ascending order."""
    clients: float
    """The part of a core that the clients used."""
    model: float


def figures() -> Iterator[Figure]:
    """Measure everything; takes about a minute and a half."""
    with timed_model() as model:
        with _streaming(model, model.port) as (clients, _):
            bare = _measure(model, clients)
        with gateway_process(model) as gateway:
            yield from _words(model, gateway, bare)
        with gateway_process(model, grace=CUT_AFTER) as gateway, _streaming(model, gateway.port):
            took = trio.run(gateway.exit) - CUT_AFTER
            yield _exit_figure(f"exit, grace {CUT_AFTER} s, beyond the grace", took)


def _words(model: TimedModel, gateway: GatewayProcess, bare: _Measured) -> Iterator[Figure]:
    health = HealthPoll(every=0.005)
    trio.run(_poll, gateway.port, health, 2.0)
    idle = health.taken()
    with _streaming(model, gateway.port) as (clients, first):
        poll = _PolledMeasure(model, gateway, clients, health)
        ours, cpu, open_ = trio.run(poll.run)
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
        met=ours.rate >= GOAL and open_ == STREAMS,
    )
    for percent in (50, 99):
        figures = [sorted(one.delays)[len(one.delays) * percent // 100] for one in (ours, bare)]
        yield Figure(f"{name}, a word on its way, p{percent}", figures[0], "ms", bare=figures[1])
    yield Figure(f"{name}, CPU of the gateway", cpu * 100, "%")
    yield Figure(f"{name}, CPU of the clients", ours.clients * 100, "%", bare=bare.clients * 100)
    yield Figure(f"{name}, CPU of the model", ours.model * 100, "%", bare=bare.model * 100)
    yield Figure(f"{name}, GET /health, p50", median(health.took), "ms", bare=median(idle))
    yield at_most(f"{name}, GET /health, longest", max(health.took), "ms", 50, bare=max(idle))
    yield _exit_figure("exit, grace 0", took)


def _exit_figure(name: str, took: float) -> Figure:
    return at_most(f"{STREAMS:,} streams, {name}", took, "s", 0.5)


@contextmanager
def _streaming(model: TimedModel, port: int) -> Iterator[tuple[StreamClients, float]]:
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


def _measure(model: TimedModel, clients: StreamClients) -> _Measured:
    before, cpu = clients.counted(), cpu_of(model.pid)
    time.sleep(SECONDS)
    return _measured(before, clients.counted(), cpu_of(model.pid) - cpu)


def _measured(before: Counted, after: Counted, cpu: float) -> _Measured:
    took = after.at - before.at
    clients = (after.cpu - before.cpu) / took
    return _Measured(after.words / took, after.delays, clients, cpu / took)


@dataclass(frozen=True, slots=True)
class _PolledMeasure:
    """A measurement during which the health is polled."""

    model: TimedModel
    gateway: GatewayProcess
    clients: StreamClients
    health: HealthPoll

    async def run(self) -> tuple[_Measured, float, int]:
        """Return what was measured, the part of a core that the gateway used, and the open streams."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.health.run, self.gateway.port)
            before, model, gateway = self.clients.counted(), cpu_of(self.model.pid), self.gateway.cpu()
            await trio.sleep(SECONDS)
            after = self.clients.counted()
            cpu = self.gateway.cpu() - gateway
            measured = _measured(before, after, cpu_of(self.model.pid) - model)
            nursery.cancel_scope.cancel()
        return measured, cpu / SECONDS, after.open


async def _poll(port: int, health: HealthPoll, seconds: float) -> None:
    with trio.move_on_after(seconds):
        await health.run(port)
