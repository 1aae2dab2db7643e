"""Turns through real sockets: clients of `/v1/chat/completions` and `/v1/runs`, the gateway as a process of
its own, and a model server in another one.

The model notes when it is asked and when its answer ends, so the time that the gateway adds is known for each
turn: before the model is asked, and after its answer ended. All processes read one clock, the monotonic one
of the machine. A bare httpx client on Trio asks the same model the same things, and is the limit. This module
imports nothing of the gateway, so it measures any version of it.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import median
from typing import Any

import httpx  # noqa: ASYNC127 - as the gateway does
import psutil
import trio

from .figures import Figure
from .timed_model import TimedModel, timed_model

KEY = "a-key-for-the-bench"
RATES = (10, 50, 200)
EXITS = (0, 1, 10, 50, 200)
WITHIN = 60.0
"""Seconds after which a measurement is given up."""


def figures() -> Iterator[Figure]:
    """Measure everything; takes about two minutes."""
    with timed_model() as model:
        yield from _at_one(model)
        for count in RATES:
            yield from _at_once(model, count)
        yield from _accepted(model)
        for count in EXITS:
            yield Figure(f"exit, turns cut: {count}", _exit(model, count, grace=0), "ms")
        for count in EXITS[1:]:
            yield Figure(f"exit, turns that finish: {count}", _exit(model, count, grace=20), "ms")


# --- what is measured --------------------------------------------------------------------------------


def _at_one(model: TimedModel) -> Iterator[Figure]:
    with _gateway(model) as gateway:
        turns = trio.run(_talk, gateway.port, 1, 60)
        times = model.times()
    turns = turns[10:]
    before = [times[turn.text][0] - turn.sent for turn in turns]
    after = [turn.done - times[turn.text][1] for turn in turns]
    yield Figure("one turn, before the model is asked, p50", _ms(before), "ms")
    yield Figure("one turn, after its answer ended, p50", _ms(after), "ms")
    added = _ms([a + b for a, b in zip(before, after, strict=True)])
    yield Figure("one turn, added in all, p50", added, "ms", goal="<= 5", met=added <= 5)


def _at_once(model: TimedModel, count: int) -> Iterator[Figure]:
    total = max(400, 4 * count)
    bare_rate, bare_cpu = _in_process(_bare, model.port, count, total)
    with _gateway(model) as gateway:
        trio.run(_talk, gateway.port, count, count)  # the sessions exist, and imports are done
        model.times()
        before, began = gateway.cpu(), time.monotonic()
        turns = trio.run(_talk, gateway.port, count, total)
        took, used = time.monotonic() - began, gateway.cpu() - before
        times = model.times()
        waits = [times[turn.text][0] - turn.sent for turn in turns]
    rate, cpu = total / took, used / total * 1000
    goal = 210 if count == 50 else None
    yield Figure(
        f"turns at once: {count}, per second",
        rate,
        "1/s",
        bare=bare_rate,
        ratio=rate / bare_rate,
        goal=f">= {goal}" if goal else "",
        met=rate >= goal if goal else None,
    )
    yield Figure(f"turns at once: {count}, CPU of one", cpu, "ms", bare=bare_cpu, ratio=cpu / bare_cpu)
    wait = _ms(waits)
    yield Figure(f"turns at once: {count}, wait before the model is asked, p50", wait, "ms")


def _accepted(model: TimedModel) -> Iterator[Figure]:
    with _gateway(model) as gateway:
        for name, path in (("/v1/runs", "/v1/runs"), ("messages", "/api/sessions/accept-{}/messages")):
            took = trio.run(_accept, gateway.port, path, 50)
            yield Figure(f"until accepted, 50 at once: {name}, last", max(took) * 1000, "ms")


def _exit(model: TimedModel, count: int, *, grace: int) -> float:
    """Return the milliseconds from SIGTERM, or from the end of the last answer if the turns may finish, until
    the process is gone."""
    with _gateway(model, grace=grace) as gateway:
        return trio.run(partial(_stop, model, gateway, count, finish=grace > 0)) * 1000


async def _stop(model: TimedModel, gateway: Gateway, count: int, *, finish: bool) -> float:
    async with trio.open_nursery() as nursery:
        lasts = time.monotonic() + 3.0 + count / 50 if finish else time.monotonic() + WITHIN
        for number in range(count):
            text = f"until {lasts} {number} {time.monotonic()}"
            nursery.start_soon(_ask_until_cut, gateway.port, f"exit-{number}", text)
        with trio.fail_after(WITHIN):
            while model.asked() < count:  # noqa: ASYNC110 - of another process
                await trio.sleep(0.05)
        model.times()
        await trio.sleep(0.5)
        began = time.monotonic()
        gateway.process.send_signal(signal.SIGTERM)
        with trio.fail_after(WITHIN):
            await trio.to_thread.run_sync(gateway.process.wait, abandon_on_cancel=True)
        gone = time.monotonic()
        nursery.cancel_scope.cancel()
    return gone - (lasts if finish else began)


def _ms(seconds: list[float]) -> float:
    return median(seconds) * 1000


# --- clients -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Turn:
    """One turn as its client saw it."""

    text: str
    sent: float
    done: float


async def _talk(port: int, count: int, total: int) -> list[Turn]:
    """Run `total` turns, `count` at once, each client in a session of its own."""
    turns: list[Turn] = []

    async def client(number: int) -> None:
        async with _connected(port) as stream:
            for turn in range(total // count):
                text = f"quick {number} {turn} {time.monotonic()}"
                turns.append(await _completion(stream, f"talk-{number}", text))

    with trio.fail_after(WITHIN):
        async with trio.open_nursery() as nursery:
            for number in range(count):
                nursery.start_soon(client, number)
    return turns


@asynccontextmanager
async def _connected(port: int) -> AsyncIterator[trio.SocketStream]:
    async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
        yield stream


async def _completion(stream: trio.SocketStream, session: str, text: str) -> Turn:
    body = {"model": "x", "stream": True, "messages": [{"role": "user", "content": text}]}
    sent = time.monotonic()
    await _post(stream, "/v1/chat/completions", body, f"X-Hermes-Session-Id: {session}\r\n")
    got = b""
    while not got.endswith(b"0\r\n\r\n"):
        more = await stream.receive_some(65536)
        if not more:
            raise ConnectionError("the answer was cut off")
        got = got[-64:] + more
    return Turn(text, sent, time.monotonic())


async def _ask_until_cut(port: int, session: str, text: str) -> None:
    async with _connected(port) as stream:
        try:
            await _completion(stream, session, text)
        except (ConnectionError, trio.BrokenResourceError):
            return


async def _accept(port: int, path: str, count: int) -> list[float]:
    took: list[float] = []
    ready, connected = trio.Event(), trio.Event()
    waiting: set[int] = set()

    async def client(number: int) -> None:
        async with _connected(port) as stream:
            waiting.add(number)
            if len(waiting) == count:
                connected.set()
            await ready.wait()
            text = f"quick accept {path} {number}"
            body = {"input": text, "session_id": f"run-{number}"} if "runs" in path else {"text": text}
            began = time.monotonic()
            await _post(stream, path.format(number), body)
            head = b""
            while b"\r\n\r\n" not in head:
                head += await stream.receive_some(65536)
            assert b" 202 " in head, head
            took.append(time.monotonic() - began)

    async with trio.open_nursery() as nursery:
        for number in range(count):
            nursery.start_soon(client, number)
        await connected.wait()
        ready.set()
    return took


async def _post(stream: trio.SocketStream, path: str, body: dict[str, Any], headers: str = "") -> None:
    data = json.dumps(body).encode()
    head = (
        f"POST {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {KEY}\r\n{headers}"
        f"Content-Type: application/json\r\nContent-Length: {len(data)}\r\n\r\n"
    )
    await stream.send_all(head.encode() + data)


def _bare(pipe: Connection, port: int, count: int, total: int) -> None:
    """Ask the model with httpx, and report the requests per second and the CPU of one."""

    async def client(http: httpx.AsyncClient, number: int, turns: int) -> None:
        for turn in range(turns):
            body = {"messages": [{"role": "user", "content": f"quick bare {number} {turn}"}], "stream": True}
            async with http.stream("POST", f"http://127.0.0.1:{port}/v1/chat/completions", json=body) as got:
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


def _in_process(job: Any, *args: Any) -> Any:
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=job, args=(there, *args))
    process.start()
    try:
        return here.recv()
    finally:
        process.join(10)
        process.terminate()


# --- the gateway -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Gateway:
    """A gateway in a process of its own."""

    process: subprocess.Popen[bytes]
    port: int

    def cpu(self) -> float:
        """Return the seconds of CPU that it has used."""
        used = psutil.Process(self.process.pid).cpu_times()
        return used.user + used.system


@contextmanager
def _gateway(model: TimedModel, *, grace: int = 0) -> Iterator[Gateway]:
    port = _free_port()
    with tempfile.TemporaryDirectory(prefix="hermes-bench-") as name:
        url = f"http://127.0.0.1:{model.port}/v1"
        config = {
            "model": {"provider": "openai", "base_url": url, "name": "bench", "api_key": "k"},
            "web": {"port": port, "key": KEY},
            "agent": {"restart_drain_timeout": grace},
        }
        Path(name, "config.yaml").write_text(json.dumps(config), encoding="utf-8")
        environ = {**os.environ, "HERMES_HOME": name}
        command = [sys.executable, "-m", "hermes_trio", "run"]
        with subprocess.Popen(
            command, env=environ, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        ) as process:
            try:
                _wait_until_healthy(process, port)
                yield Gateway(process, port)
            finally:
                process.kill()


def _wait_until_healthy(process: subprocess.Popen[bytes], port: int) -> None:
    until = time.monotonic() + WITHIN
    while time.monotonic() < until and process.poll() is None:
        try:
            if httpx.get(f"http://127.0.0.1:{port}/health").status_code == 200:
                return
        except httpx.TransportError:
            time.sleep(0.05)
    raise RuntimeError("the gateway does not start")


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
    return port
