"""A gateway in a process of its own, and clients of its HTTP API, for the measurements through real sockets.

This module imports nothing of the gateway, so it measures any version of it.
"""

from __future__ import annotations

import json
import math
import multiprocessing
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx  # noqa: ASYNC127 - as the gateway does
import psutil
import trio

from ..scripted_model import ScriptedModel

KEY = "a-key-for-the-bench"
COMPLETIONS = "/v1/chat/completions"
WITHIN = 60.0
"""Seconds after which a measurement is given up."""

_HEALTH = f"GET /health HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {KEY}\r\n\r\n".encode()


# --- the gateway -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class GatewayProcess:
    """A gateway in a process of its own."""

    process: subprocess.Popen[bytes]
    port: int
    home: Path

    def cpu(self) -> float:
        """Return the seconds of CPU that it has used."""
        return cpu_of(self.process.pid)

    def kilobytes(self) -> float:
        """Return the memory that is its own, without the pages of shared libraries."""
        own: int = psutil.Process(self.process.pid).memory_full_info().uss
        return own / 1024

    def long_steps(self) -> float:
        """Return the number of steps that held its event loop for over 10 ms; NaN if it does not count
        them."""
        headers = {"Authorization": f"Bearer {KEY}"}
        metrics = httpx.get(f"http://127.0.0.1:{self.port}/metrics", headers=headers).text
        found = re.search(r"^hermes_loop_long_step_seconds_count (\S+)$", metrics, re.MULTILINE)
        return float(found[1]) if found else math.nan

    async def exit(self) -> float:
        """Send SIGTERM, wait until the process is gone, and return the seconds between."""
        began = time.monotonic()
        self.process.send_signal(signal.SIGTERM)
        with trio.fail_after(WITHIN):
            await trio.to_thread.run_sync(self.process.wait, abandon_on_cancel=True)
        return time.monotonic() - began


def cpu_of(pid: int) -> float:
    """Return the seconds of CPU that a process has used."""
    used = psutil.Process(pid).cpu_times()
    return used.user + used.system


@contextmanager
def gateway_process(
    model: ScriptedModel,
    *,
    grace: int = 0,
    context_length: int | None = None,
    database: Mapping[str, object] | None = None,
) -> Iterator[GatewayProcess]:
    """Run a gateway during the block; its agent asks this model. Its store is a file, or in this database."""
    port = _free_port()
    with tempfile.TemporaryDirectory(prefix="hermes-bench-") as name:
        url = f"http://127.0.0.1:{model.port}/v1"
        config = {
            "model": {"provider": "openai", "base_url": url, "name": "bench", "api_key": "k"}
            | ({"context_length": context_length} if context_length else {}),
            "web": {"port": port, "key": KEY},
            "agent": {"restart_drain_timeout": grace},
            "database": dict(database or {}),
        }
        Path(name, "config.yaml").write_text(json.dumps(config), encoding="utf-8")
        environ = {**os.environ, "HERMES_HOME": name}
        command = [sys.executable, "-m", "hermes_trio", "run"]
        with subprocess.Popen(
            command, env=environ, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        ) as process:
            try:
                _wait_until_healthy(process, port)
                yield GatewayProcess(process, port, Path(name))
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


# --- clients -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TimedTurn:
    """One turn as its client saw it."""

    text: str
    sent: float
    done: float


async def talk(
    port: int,
    count: int,
    total: int,
    *,
    sessions: int | None = None,
    fresh: bool = False,
    name: str = "talk",
) -> list[TimedTurn]:
    """Run `total` turns, `count` at once, and return their times. The turns take place in `sessions`, a
    multiple of `count`; left out, each client has one. `fresh` means a new connection for each turn. The
    sessions have this name, and a number."""
    turns: list[TimedTurn] = []
    stride = (sessions or count) // count

    async def client(number: int) -> None:
        stream = await _connect(port)
        try:
            for turn in range(total // count):
                if fresh and turn:
                    await stream.aclose()
                    stream = await _connect(port)
                session = number + count * (turn % stride)
                text = f"quick {number} {turn} {time.monotonic()}"
                turns.append(await completion(stream, f"{name}-{session}", text))
        finally:
            await trio.aclose_forcefully(stream)

    with trio.fail_after(WITHIN):
        async with trio.open_nursery() as nursery:
            for number in range(count):
                nursery.start_soon(client, number)
    return turns


async def _connect(port: int) -> trio.SocketStream:
    return await trio.open_tcp_stream("127.0.0.1", port)


@asynccontextmanager
async def connected(port: int) -> AsyncIterator[trio.SocketStream]:
    """Open a connection for the block."""
    async with await _connect(port) as stream:
        yield stream


async def completion(stream: trio.SocketStream, session: str, text: str) -> TimedTurn:
    """Ask for an answer as a stream, and read it to its end."""
    sent = time.monotonic()
    await stream.send_all(completion_request(session, text))
    await read_stream(stream)
    return TimedTurn(text, sent, time.monotonic())


async def read_stream(stream: trio.SocketStream) -> None:
    """Read a response in chunks to its end."""
    got = b""
    while not got.endswith(b"0\r\n\r\n"):
        more = await stream.receive_some(65536)
        if not more:
            raise ConnectionError("the answer was cut off")
        got = got[-64:] + more


async def hold(model: ScriptedModel, port: int, texts: Mapping[str, str], nursery: trio.Nursery) -> None:
    """Start a turn in each of these sessions with its text, and return when the model was asked them all.
    The turns go on in the nursery until they end or are cut."""
    model.times()
    for session, text in texts.items():
        nursery.start_soon(_ask_until_cut, port, session, text)
    with trio.fail_after(WITHIN):
        while model.asked() < len(texts):  # noqa: ASYNC110 - of another process
            await trio.sleep(0.05)
    model.times()
    await trio.sleep(0.5)


async def _ask_until_cut(port: int, session: str, text: str) -> None:
    async with connected(port) as stream:
        try:
            await completion(stream, session, text)
        except (ConnectionError, trio.BrokenResourceError):
            return


def completion_request(session: str, text: str) -> bytes:
    """Return the request for an answer as a stream."""
    body = {"model": "x", "stream": True, "messages": [{"role": "user", "content": text}]}
    return post_request(COMPLETIONS, body, f"X-Hermes-Session-Id: {session}\r\n")


def post_request(path: str, body: Mapping[str, Any], headers: str = "") -> bytes:
    """Return a request with a body."""
    data = json.dumps(body).encode()
    head = (
        f"POST {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {KEY}\r\n{headers}"
        f"Content-Type: application/json\r\nContent-Length: {len(data)}\r\n\r\n"
    )
    return head.encode() + data


@dataclass(slots=True)
class HealthPoll:
    """The milliseconds in which each `GET /health` was answered, one after the other on one connection."""

    every: float = 0.003
    """Seconds between an answer and the next request."""
    took: list[float] = field(default_factory=list)

    async def run(self, port: int) -> None:
        """Poll until cancelled."""
        async with connected(port) as stream:
            while True:
                began = time.monotonic()
                await stream.send_all(_HEALTH)
                got = b""
                while not got.endswith(b"}"):
                    more = await stream.receive_some(65536)
                    if not more:
                        raise ConnectionError("the poll was cut off")
                    got += more
                self.took.append((time.monotonic() - began) * 1000)
                await trio.sleep(self.every)

    def taken(self) -> list[float]:
        """Return the times since the last call."""
        took, self.took = self.took, []
        return took


# --- processes of our own ----------------------------------------------------------------------------


def in_process(job: Any, *args: Any) -> Any:
    """Run the job in a process of its own, and return what it sends through the pipe of its first
    argument."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=job, args=(there, *args))
    process.start()
    try:
        if not here.poll(WITHIN):
            raise TimeoutError("a process of the benchmark takes too long")
        return here.recv()
    finally:
        process.join(10)
        process.terminate()
