"""Words of running answers while other turns begin: some answers stream, and many turns begin in one moment.

The bare limit is the same answers while nothing begins.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from statistics import median

import trio

from ..figures import Figure
from ..scripted_model import ScriptedModel, scripted_model
from .gateway import (
    WITHIN,
    GatewayProcess,
    completion_request,
    connected,
    gateway_process,
    read_stream,
    talk,
)
from .stream_clients import StreamClients, stream_clients

STREAMS = 50
RATE = 20
"""Words per second of each stream."""
TURNS = 200
ROUNDS = 4
QUIET = 2.0
"""Seconds of words with which the others are compared."""
HELD = 5.0
"""Seconds from the begin of the turns to their end, which is not measured."""


def figures() -> Iterator[Figure]:
    """Measure everything; takes about half a minute."""
    delays, waits = list[float](), list[float]()
    with (
        scripted_model() as model,
        gateway_process(model) as gateway,
        stream_clients(gateway.port, STREAMS, f"words {RATE} {WITHIN}") as clients,
    ):
        clients.counted()  # they are connected
        while model.asked() < STREAMS:
            time.sleep(0.05)
        trio.run(talk, gateway.port, TURNS, TURNS)  # the sessions exist, and imports are done
        model.begin_words()
        time.sleep(QUIET)
        clients.counted()
        time.sleep(QUIET)
        quiet = sorted(clients.counted().delays)
        for number in range(ROUNDS):
            waits += trio.run(_begin, model, gateway, clients, number, delays)
    delays.sort()
    name = f"{STREAMS} streams while {TURNS} turns begin"
    for percent in (50, 99):
        yield Figure(
            f"{name}, a word on its way, p{percent}",
            delays[len(delays) * percent // 100],
            "ms",
            bare=quiet[len(quiet) * percent // 100],
        )
    yield Figure(f"{name}, a word on its way, longest", delays[-1], "ms", bare=quiet[-1])
    yield Figure(f"{name}, wait before the model is asked, p50", median(waits) * 1000, "ms")


async def _begin(
    model: ScriptedModel, gateway: GatewayProcess, clients: StreamClients, number: int, delays: list[float]
) -> list[float]:
    """Begin all turns in one moment, and add the delays of the words until the last of them has asked.
    Return the seconds that each turn waited for that, once all have ended."""
    ready, all_connected, waiting = trio.Event(), trio.Event(), set[int]()

    async def client(nth: int, text: str) -> None:
        async with connected(gateway.port) as stream:
            waiting.add(nth)
            if len(waiting) == TURNS:
                all_connected.set()
            await ready.wait()
            await stream.send_all(completion_request(f"talk-{nth}", text))
            await read_stream(stream)

    model.times()
    with trio.fail_after(WITHIN):
        async with trio.open_nursery() as nursery:
            lasts = time.monotonic() + HELD
            for nth in range(TURNS):
                nursery.start_soon(client, nth, f"until {lasts} {number} {nth}")
            await all_connected.wait()
            await trio.sleep(0.3)
            clients.counted()
            began = time.monotonic()
            ready.set()
            while model.asked() < TURNS:  # noqa: ASYNC110 - of another process
                await trio.sleep(0.02)
            delays += clients.counted().delays
    return [one.head - began for one in model.times().values()]
