"""Turns through real sockets: clients of `/v1/chat/completions` and `/v1/runs`, the gateway as a process of
its own, and a model server in another one.

The model notes when it is asked and when its answer ends, so the time that the gateway adds is known for each
turn: before the model is asked, and after its answer ended. All processes read one clock, the monotonic one
of the machine. A bare httpx client on Trio asks the same model the same things, and is the limit. This module
imports nothing of the gateway, so it measures any version of it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from multiprocessing.connection import Connection
from statistics import median

import httpx  # noqa: ASYNC127 - as the gateway does
import trio

from ..figures import Figure
from ..scripted_model import ScriptedModel, scripted_model
from .gateway import (
    COMPLETIONS,
    WITHIN,
    GatewayProcess,
    connected,
    gateway_process,
    hold,
    in_process,
    post_request,
    talk,
)

RATES = (10, 50, 200)
EXITS = (0, 1, 10, 50, 200)


def figures() -> Iterator[Figure]:
    """Measure everything; takes about two minutes."""
    with scripted_model() as model:
        yield from _at_one(model)
        for count in RATES:
            yield from _at_once(model, count)
        yield from _at_once(model, 50, fresh=True)
        yield from _accepted(model)
        for count in EXITS:
            yield Figure(f"exit, turns cut: {count}", _exit(model, count, grace=0), "ms")
        for count in EXITS[1:]:
            yield Figure(f"exit, turns that finish: {count}", _exit(model, count, grace=20), "ms")


# --- what is measured --------------------------------------------------------------------------------


def _at_one(model: ScriptedModel) -> Iterator[Figure]:
    with gateway_process(model) as gateway:
        turns = trio.run(talk, gateway.port, 1, 60)
        times = model.times()
    turns = turns[10:]
    before = [times[turn.text].head - turn.sent for turn in turns]
    after = [turn.done - times[turn.text].answered for turn in turns]
    yield Figure("one turn, before the model is asked, p50", _ms(before), "ms")
    yield Figure("one turn, after its answer ended, p50", _ms(after), "ms")
    added = _ms([a + b for a, b in zip(before, after, strict=True)])
    yield Figure("one turn, added in all, p50", added, "ms", goal="<= 5", met=added <= 5)


def _at_once(model: ScriptedModel, count: int, *, fresh: bool = False) -> Iterator[Figure]:
    """Measure turns at once; `fresh` means a new connection of the client for each turn."""
    total = max(400, 4 * count)
    bare_rate, bare_cpu = in_process(_bare, model.port, count, total)
    with gateway_process(model) as gateway:
        trio.run(talk, gateway.port, count, count)  # the sessions exist, and imports are done
        model.times()
        steps_before = gateway.long_steps()
        before, began = gateway.cpu(), time.monotonic()
        turns = trio.run(partial(talk, gateway.port, count, total, fresh=fresh))
        took, used = time.monotonic() - began, gateway.cpu() - before
        long_steps = gateway.long_steps() - steps_before
        times = model.times()
        waits = [times[turn.text].head - turn.sent for turn in turns]
    rate, cpu = total / took, used / total * 1000
    name = f"turns at once: {count}" + (", new connections" if fresh else "")
    goal = 210 if count == 50 else None
    yield Figure(
        f"{name}, per second",
        rate,
        "1/s",
        bare=bare_rate,
        ratio=rate / bare_rate,
        goal=f">= {goal}" if goal else "",
        met=rate >= goal if goal else None,
    )
    yield Figure(f"{name}, CPU of one", cpu, "ms", bare=bare_cpu, ratio=cpu / bare_cpu)
    yield Figure(f"{name}, wait before the model is asked, p50", _ms(waits), "ms")
    yield Figure(f"{name}, steps of the loop over 10 ms", long_steps, "")


def _accepted(model: ScriptedModel) -> Iterator[Figure]:
    with gateway_process(model) as gateway:
        for name, path in (("/v1/runs", "/v1/runs"), ("messages", "/api/sessions/accept-{}/messages")):
            took = trio.run(_accept, gateway.port, path, 50)
            yield Figure(f"until accepted, 50 at once: {name}, last", max(took) * 1000, "ms")


def _exit(model: ScriptedModel, count: int, *, grace: int) -> float:
    """Return the milliseconds from SIGTERM, or from the end of the last answer if the turns may finish, until
    the process is gone."""
    with gateway_process(model, grace=grace) as gateway:
        return trio.run(partial(_stop, model, gateway, count, finish=grace > 0)) * 1000


async def _stop(model: ScriptedModel, gateway: GatewayProcess, count: int, *, finish: bool) -> float:
    async with trio.open_nursery() as nursery:
        lasts = time.monotonic() + (3.0 + count / 50 if finish else WITHIN)
        texts = {f"exit-{number}": f"until {lasts} {number} {time.monotonic()}" for number in range(count)}
        await hold(model, gateway.port, texts, nursery)
        began = time.monotonic()
        took = await gateway.exit()
        nursery.cancel_scope.cancel()
    return began + took - (lasts if finish else began)


def _ms(seconds: list[float]) -> float:
    return median(seconds) * 1000


# --- clients -----------------------------------------------------------------------------------------


async def _accept(port: int, path: str, count: int) -> list[float]:
    took: list[float] = []
    ready, all_connected = trio.Event(), trio.Event()
    waiting: set[int] = set()

    async def client(number: int) -> None:
        async with connected(port) as stream:
            waiting.add(number)
            if len(waiting) == count:
                all_connected.set()
            await ready.wait()
            text = f"quick accept {path} {number}"
            body = {"input": text, "session_id": f"run-{number}"} if "runs" in path else {"text": text}
            began = time.monotonic()
            await stream.send_all(post_request(path.format(number), body))
            head = b""
            while b"\r\n\r\n" not in head:
                head += await stream.receive_some(65536)
            assert b" 202 " in head, head
            took.append(time.monotonic() - began)

    async with trio.open_nursery() as nursery:
        for number in range(count):
            nursery.start_soon(client, number)
        await all_connected.wait()
        ready.set()
    return took


def _bare(pipe: Connection, port: int, count: int, total: int) -> None:
    """Ask the model with httpx, and report the requests per second and the CPU of one."""

    async def client(http: httpx.AsyncClient, number: int, turns: int) -> None:
        for turn in range(turns):
            body = {"messages": [{"role": "user", "content": f"quick bare {number} {turn}"}], "stream": True}
            async with http.stream("POST", f"http://127.0.0.1:{port}{COMPLETIONS}", json=body) as got:
                async for _ in got.aiter_lines():
                    pass

    async def crowd(turns: int) -> None:
        limits = httpx.Limits(max_connections=None)
        async with httpx.AsyncClient(limits=limits, timeout=WITHIN) as http, trio.open_nursery() as nursery:
            for number in range(count):
                nursery.start_soon(client, http, number, turns)

    trio.run(crowd, 1)
    before, began = time.process_time(), time.monotonic()
    trio.run(crowd, total // count)
    took, used = time.monotonic() - began, time.process_time() - before
    pipe.send((total / took, used / total * 1000))
