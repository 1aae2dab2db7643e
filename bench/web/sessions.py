"""Costs that grow with sessions and turns: a turn in a long session and what others feel meanwhile, the
memory of a running turn, and the memory and CPU of many turns one after another.

The gateway keeps the transcripts of its sessions in memory, up to a limit in bytes. Until that is reached,
memory grows by the rows of each turn.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from statistics import median

import trio

from ..figures import Figure, at_most, show
from ..scripted_model import ScriptedModel, scripted_model
from .gateway import (
    COMPLETIONS,
    WITHIN,
    GatewayProcess,
    HealthPoll,
    completion,
    connected,
    gateway_process,
    hold,
    post_request,
    read_stream,
    talk,
)

ROWS = (200, 20_000)
ROW = "A row of about sixty characters, as people write them, no. {}"
TURNS = 10
ENDLESS = 100_000_000
"""Tokens of a context in which every session fits, so that none is shortened."""
HELD = 200
SESSIONS, AT_ONCE = 200, 20
MILESTONES = (2_000, 6_000)
"""Numbers of turns after which memory and CPU are measured."""
LONG_MILESTONES = (20_000, 60_000, 80_000, 100_000)
"""The same for the long run. What is kept of sessions has reached its limit in bytes before the second."""
LONG_SESSIONS = 1_000
NOISE = 50
"""Kilobytes for 1,000 turns that count as no growth."""
STEP = 1_000
"""Turns with one time limit."""


def figures() -> Iterator[Figure]:
    """Measure everything but the long run; takes about a minute."""
    with scripted_model() as model:
        yield from _long_session(model)
        yield from _running_turns(model)
        yield from _growth(model, MILESTONES, SESSIONS)


def main() -> int:
    """Measure and print the growth over many turns; takes about five minutes."""
    with scripted_model() as model:
        show("growth", list(_growth(model, LONG_MILESTONES, LONG_SESSIONS)))
    return 0


# --- a long session ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Session:
    """Turns in one session, in milliseconds."""

    turns: list[float]
    """Each from its request to its last byte, without the decoding of the model."""
    waits: list[float]
    """Each from its request until the model is asked."""
    health: list[float]
    """The longest answer of `GET /health` during each turn."""


def _long_session(model: ScriptedModel) -> Iterator[Figure]:
    with gateway_process(model, context_length=ENDLESS) as gateway:
        health = HealthPoll()
        trio.run(_idle, gateway.port, health)
        took = health.taken()
        # One answer of a thousand waits for the machine and not for the gateway, so this is not the longest.
        idle = sorted(took)[len(took) * 99 // 100]
        for rows in ROWS:
            name = f"a session of {rows:,} rows"
            session = trio.run(_turns, model, gateway, health, rows)
            bare = trio.run(_bare, model, rows)
            yield Figure(f"{name}, a turn, p50", median(session.turns), "ms", bare=median(bare))
            yield Figure(f"{name}, until the model is asked, p50", median(session.waits), "ms")
            each = median(session.health)
            yield Figure(f"{name}, longest GET /health of a turn, p50", each, "ms", bare=idle)
            most = max(session.health)
            yield at_most(f"{name}, longest GET /health of all", most, "ms", idle + 10, bare=idle)


async def _idle(port: int, health: HealthPoll) -> None:
    with trio.move_on_after(3.0):
        await health.run(port)


async def _turns(model: ScriptedModel, gateway: GatewayProcess, health: HealthPoll, rows: int) -> _Session:
    turns, waits, longest, key = list[float](), list[float](), list[float](), f"rows-{rows}"
    with trio.fail_after(WITHIN):
        async with trio.open_nursery() as nursery, connected(gateway.port) as stream:
            await completion(stream, key, "quick first")
            _fill(gateway, rows)
            await completion(stream, key, "quick warm")
            await trio.sleep(1.0)
            nursery.start_soon(health.run, gateway.port)
            await trio.sleep(0.5)
            model.times()
            for number in range(TURNS):
                health.taken()
                turn = await completion(stream, key, f"quick row {number}")
                await trio.sleep(0.1)
                longest.append(max(health.taken()))
                asked = model.times()[turn.text]
                assert asked.messages > rows, "the session is sent whole"
                turns.append((turn.done - turn.sent - (asked.decoded - asked.body)) * 1000)
                waits.append((asked.head - turn.sent) * 1000)
            nursery.cancel_scope.cancel()
    return _Session(turns, waits, longest)


def _fill(gateway: GatewayProcess, rows: int) -> None:
    """Write rows into the youngest session, as if its first turn had been that long."""
    with closing(sqlite3.connect(gateway.home / "gateway.db", timeout=WITHIN)) as database, database:
        newest = "SELECT session_id, max(turn_id) FROM turns"
        session_id, turn_id = database.execute(newest).fetchone()
        database.executemany(
            "INSERT INTO messages (session_id, turn_id, place, role, content, created_at) "
            "VALUES (?, ?, ?, ?, ?, ?)",
            [
                (session_id, turn_id, 1_000 + at, role, ROW.format(at), time.time())
                for at, role in _row_roles(rows)
            ],
        )


def _row_roles(rows: int) -> Iterator[tuple[int, str]]:
    return ((at, "assistant" if at % 2 else "user") for at in range(rows))


async def _bare(model: ScriptedModel, rows: int) -> list[float]:
    """Send as many rows straight to the model, and return the milliseconds without its decoding."""
    messages = [{"role": role, "content": ROW.format(at)} for at, role in _row_roles(rows)]
    took = list[float]()
    with trio.fail_after(WITHIN):
        async with connected(model.port) as stream:
            for number in range(TURNS):
                text = f"quick bare {number}"
                body = {"stream": True, "messages": [*messages, {"role": "user", "content": text}]}
                request = post_request(COMPLETIONS, body)
                began = time.monotonic()
                await stream.send_all(request)
                await read_stream(stream)
                ended = time.monotonic()
                asked = model.times()[text]
                took.append((ended - began - (asked.decoded - asked.body)) * 1000)
    return took


# --- running turns -----------------------------------------------------------------------------------


def _running_turns(model: ScriptedModel) -> Iterator[Figure]:
    for name, sessions in (("a session that it begins", "new"), ("a used session", "talk")):
        with gateway_process(model) as gateway:
            trio.run(talk, gateway.port, AT_ONCE, HELD)
            trio.run(partial(talk, gateway.port, AT_ONCE, 2 * HELD, sessions=2 * HELD))
            each = trio.run(_memory_of_turns, model, gateway, sessions)
        yield at_most(f"memory of a running turn, in {name}", each, "KB", 60)


async def _memory_of_turns(model: ScriptedModel, gateway: GatewayProcess, sessions: str) -> float:
    """Return the kilobytes for each of the turns that are held in sessions of this kind. As many are held
    before: they take the memory that earlier turns have left free, which would hide a part of the cost."""
    await trio.sleep(1.0)
    lasts = time.monotonic() + WITHIN
    texts = [(f"{sessions}-{number}", f"until {lasts} {number}") for number in range(2 * HELD)]
    async with trio.open_nursery() as nursery:
        await hold(model, gateway.port, dict(texts[:HELD]), nursery)
        await trio.sleep(0.5)
        before = gateway.kilobytes()
        await hold(model, gateway.port, dict(texts[HELD:]), nursery)
        await trio.sleep(0.5)
        after = gateway.kilobytes()
        nursery.cancel_scope.cancel()
    return (after - before) / HELD


# --- growth ------------------------------------------------------------------------------------------


def _growth(model: ScriptedModel, milestones: tuple[int, ...], sessions: int) -> Iterator[Figure]:
    with gateway_process(model) as gateway:
        measured = [(0, gateway.kilobytes(), gateway.cpu())]
        for start, end in pairwise((0, *milestones)):
            for _ in range(start, end, STEP):
                trio.run(partial(talk, gateway.port, AT_ONCE, STEP, sessions=sessions))
                model.times()
            time.sleep(1.0)
            measured.append((end, gateway.kilobytes(), gateway.cpu()))
    for (start, before, cpu_before), (end, after, cpu_after) in pairwise(measured):
        name = f"turns {start + 1:,} to {end:,} in {sessions:,} sessions"
        turns = end - start
        growth = (after - before) / turns * 1000
        # The first turns import modules and fill caches.
        label = f"{name}, growth for 1,000"
        yield at_most(label, growth, "KB", NOISE) if start else Figure(label, growth, "KB")
        yield Figure(f"{name}, CPU of one", (cpu_after - cpu_before) / turns * 1000, "ms")
