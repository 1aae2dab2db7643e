"""The cost of listeners: tokens of one run sent to all listeners of its events, from the moment they happen
to the moment they are read; and the memory of a listener.

The bare limit is a server on Trio that sends the same frames to as many connections, one task for each, in
HTTP chunks that hold all waiting frames, and does nothing else: no database, no HTTP but a head, no journal.
The gateway's figures include its journal: each token is in the file before it is sent, and the next one is
written after that. The rate without a listener shows the part of the journal. Each server has a process of
its own, and so have the listeners, which are as busy as the server; each round measures both servers, one
after the other, so that noise of the machine affects both. The time ends when all listeners have the last
token. *At once* is a run that writes as fast as it can; *steady* one that writes twenty tokens per second.
"""

from __future__ import annotations

import math
import multiprocessing
import signal
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from statistics import median

import msgspec
import psutil
import trio

from hermes_trio.config.schema import GatewayConfig, WebConfig
from hermes_trio.gateway.serve import Setup, serve
from hermes_trio.gateway.turn.context import TurnContext
from hermes_trio.host.loop.open_files import raise_open_files
from hermes_trio.web.app import Web
from hermes_trio.web.http.event_stream import frame

from ..core import logged_home
from ..figures import Figure, beside, show
from . import fairness, sessions, streams, turns

LISTENERS = {1: 2000, 10: 2000, 100: 500, 1000: 100}
"""Number of tokens of a run at once, by the number of listeners."""
ROUNDS = 3
STEADY, EVERY = 100, 0.05
KEY = "a-key-for-the-bench"
TOKEN, LAST = "token ", "the last"
END = f'"{LAST}"'.encode()


@dataclass(frozen=True, slots=True)
class Case:
    """One kind of run."""

    listeners: int
    tokens: int
    every: float = 0.0


@dataclass(frozen=True, slots=True)
class Measured:
    """The result of one run."""

    rate: float
    """Tokens per second, all listeners together."""
    delays: tuple[float, ...]
    """Milliseconds from each token until the listener that connected last has it, with the journal."""
    grown: float
    """Kilobytes of the server for each listener."""


def main() -> int:
    """Measure and print all figures; takes six minutes."""
    raise_open_files()
    show("web", list(_figures()))
    show("web, turns", list(turns.figures()))
    show("web, sessions", list(sessions.figures()))
    show("web, streams", list(streams.figures()))
    show("web, fairness", list(fairness.figures()))
    return 0


def _figures() -> Iterator[Figure]:
    yield Figure("at once, nobody listens", median(_alone() for _ in range(ROUNDS)), "1/s")
    for count, tokens in LISTENERS.items():
        rounds = [_both(Case(count, tokens)) for _ in range(ROUNDS)]
        yield beside(f"at once, listeners: {count:,}", "1/s", [(a.rate, b.rate) for a, b in rounds])
    for count in LISTENERS:
        ours, bare = _both(Case(count, STEADY, EVERY))
        for percent in (50, 99):
            yield Figure(
                f"steady, listeners: {count:,}, p{percent}",
                _percentile(ours.delays, percent),
                "ms",
                bare=_percentile(bare.delays, percent),
            )
        if count == max(LISTENERS):
            yield Figure("a listener", ours.grown, "KB", bare=bare.grown, ratio=ours.grown / bare.grown)


def _both(case: Case) -> tuple[Measured, Measured]:
    return _measured(_serve_ours, case), _measured(_serve_bare, case)


def _alone() -> float:
    """Return the tokens per second of a run without a listener."""
    with _served(_serve_ours, Case(0, 2000)) as (_, port, pipe):
        trio.run(_start_run, port)
        rate: float = pipe.recv()
    return rate


def _percentile(values: tuple[float, ...], percent: int) -> float:
    return sorted(values)[min(len(values) - 1, math.ceil(len(values) * percent / 100) - 1)]


# --- the listeners -----------------------------------------------------------------------------------


def _measured(server: Callable[[Connection, Case], None], case: Case) -> Measured:
    with _served(server, case) as (process, port, _):
        return trio.run(_listen, process, port, case)


@contextmanager
def _served(
    server: Callable[[Connection, Case], None], case: Case
) -> Iterator[tuple[psutil.Process, int, Connection]]:
    spawn = multiprocessing.get_context("spawn")
    here, there = spawn.Pipe()
    process = spawn.Process(target=server, args=(there, case))
    process.start()
    try:
        port = here.recv()
        assert process.pid is not None
        yield psutil.Process(process.pid), port, here
    finally:
        process.terminate()
        process.join()


async def _listen(process: psutil.Process, port: int, case: Case) -> Measured:
    heard: list[tuple[float, float]] = []
    async with AsyncExitStack() as held:
        first = await _connect(held, port, "GET /api/events")
        before = process.memory_info().rss
        others = [await _connect(held, port, "GET /api/events") for _ in range(case.listeners - 1)]
        *streams, last = [first, *others]
        await trio.sleep(0.5)
        grown = (process.memory_info().rss - before) / 1024 / max(1, case.listeners - 1)
        async with trio.open_nursery() as nursery:
            for stream in streams:
                nursery.start_soon(_read, stream)
            nursery.start_soon(_time, last, case.tokens, heard)
            await _start_run(port)
        took = time.time() - heard[0][0]
    delays = tuple((read - said) * 1000 for said, read in heard)
    return Measured(case.listeners * case.tokens / took, delays, grown)


async def _connect(held: AsyncExitStack, port: int, what: str) -> trio.SocketStream:
    stream = await held.enter_async_context(await trio.open_tcp_stream("127.0.0.1", port))
    await stream.send_all(
        f"{what} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {KEY}\r\n\r\n".encode()
    )
    got = b""
    while b": connected" not in got:
        got += await stream.receive_some(65536)
    return stream


async def _start_run(port: int) -> None:
    """Start the run."""
    body = b'{"text": "go"}'
    async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
        head = (
            "POST /api/sessions/one/messages HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
            f"Authorization: Bearer {KEY}\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        await stream.send_all(head.encode() + body)
        async for _ in stream:
            pass


async def _read(stream: trio.SocketStream) -> None:
    """Read to the last token without parsing."""
    tail = b""
    while END not in tail:
        data = await stream.receive_some(65536)
        assert data, "no listener is cut off"
        tail = tail[-len(END) :] + data


async def _time(stream: trio.SocketStream, tokens: int, heard: list[tuple[float, float]]) -> None:
    """Read `tokens` tokens, and note when each was written and when it was read."""
    rest = b""
    while len(heard) < tokens:
        data = await stream.receive_some(65536)
        assert data, "no listener is cut off"
        now = time.time()
        *lines, rest = (rest + data).split(b"\n\n")
        for line in lines:
            at = line.find(b"data: {")
            if at >= 0 and (said := msgspec.json.decode(line[at + 6 :]))["event"] == "message.delta":
                heard.append((said["at"], now))


# --- the gateway -------------------------------------------------------------------------------------


def _serve_ours(pipe: Connection, case: Case) -> None:
    raise_open_files()
    config = GatewayConfig(web=WebConfig(port=0, key=KEY))

    async def agent(turn: TurnContext) -> str:
        began = time.perf_counter()
        for seq in range(1, case.tokens + 1):
            await turn.say(TOKEN if seq < case.tokens else LAST)
            await trio.sleep(case.every)
        pipe.send(case.tokens / (time.perf_counter() - began))
        return turn.text

    async def serving() -> None:
        web = Web(config)
        with logged_home() as home:
            async with trio.open_nursery() as nursery:

                async def gateway(task_status: trio.TaskStatus[object]) -> None:
                    await serve(
                        Setup(home, config, agent=agent, adapters=[web.platform], doors=[web.door]),
                        task_status=task_status,
                    )

                await nursery.start(gateway)
                with trio.open_signal_receiver(signal.SIGTERM) as ended:
                    pipe.send(int(web.address.rpartition(":")[2]))
                    await anext(ended)
                nursery.cancel_scope.cancel(reason="all is measured")

    trio.run(serving)


# --- the bare server ---------------------------------------------------------------------------------


class Listener:
    """A connection, and the frames that are to be sent there."""

    def __init__(self) -> None:
        self._frames: deque[bytes] = deque()
        self._news = trio.Event()

    def put(self, data: bytes) -> None:
        self._frames.append(data)
        self._news.set()

    async def send(self, stream: trio.abc.Stream) -> None:
        while True:
            await self._news.wait()
            self._news = trio.Event()
            frames, self._frames = self._frames, deque()
            data = b"".join(frames)
            await stream.send_all(b"%x\r\n%b\r\n" % (len(data), data))


def _serve_bare(pipe: Connection, case: Case) -> None:
    raise_open_files()
    listeners: list[Listener] = []

    async def talk(stream: trio.abc.Stream) -> None:
        asked = await stream.receive_some(65536)
        if asked.startswith(b"GET"):
            await stream.send_all(
                b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
                b"d\r\n: connected\n\n\r\n"
            )
            listener = Listener()
            listeners.append(listener)
            await listener.send(stream)
        await stream.send_all(b"HTTP/1.1 202 Accepted\r\nConnection: close\r\n\r\n")
        await stream.aclose()
        for seq in range(1, case.tokens + 1):
            said = {
                "delta": TOKEN if seq < case.tokens else LAST,
                "event": "message.delta",
                "session_id": "one",
                "run_id": "a" * 32,
                "seq": seq,
                "at": time.time(),
            }
            data = frame(said, f"{'a' * 32}:{seq}")
            for listener in listeners:
                listener.put(data)
            await trio.sleep(case.every)

    async def serving() -> None:
        (listening,) = await trio.open_tcp_listeners(0, host="127.0.0.1", backlog=2048)
        pipe.send(listening.socket.getsockname()[1])
        await trio.serve_listeners(talk, [listening])

    trio.run(serving)
