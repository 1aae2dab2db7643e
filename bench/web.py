"""What it costs to let others see: tokens of one run fanned out to everybody who listens to the events, from
the moment they happen to the moment they are read, and what each who listens costs in memory.

Beside the gateway stands a bare server on Trio that sends the same frames to as many connections, in chunks
as HTTP has them and as many in one as wait, one task for each, and does nothing else: no database, no HTTP
but a head, and no journal. The gateway's figures hold its journal: each token is in the file before it is
sent, and the next one is said after that. What of it is the journal's is the rate at which tokens are said
to nobody. Each server has a process of its own, and so have the listeners, which are as busy as it; each
round measures both servers, one after the other, so that the noise of the machine hits both. The time goes
from the first token to the moment when everybody has the last. *At once* is a run that says all it has as
fast as it can; *steady* one that says twenty things a second.
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

from .drain import logged_home
from .figures import Figure, beside, show

LISTENERS = {1: 2000, 10: 2000, 100: 500, 1000: 100}
"""How many tokens are said at once to so many."""
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
class Heard:
    """What came of it."""

    rate: float
    """Tokens in a second, all listeners together."""
    delays: tuple[float, ...]
    """Milliseconds until the one who came last had each of them, the journal among them."""
    grown: float
    """Kilobytes of the server for each listener."""


def main() -> int:
    """Measure and print everything; takes two minutes."""
    raise_open_files()
    show("web", list(_figures()))
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


def _both(case: Case) -> tuple[Heard, Heard]:
    return _measured(_serve_ours, case), _measured(_serve_bare, case)


def _alone() -> float:
    """How many tokens a run says in a second."""
    with _served(_serve_ours, Case(0, 2000)) as (_, port, pipe):
        trio.run(_say, port)
        rate: float = pipe.recv()
    return rate


def _percentile(values: tuple[float, ...], percent: int) -> float:
    return sorted(values)[min(len(values) - 1, math.ceil(len(values) * percent / 100) - 1)]


# --- those who listen --------------------------------------------------------------------------------


def _measured(server: Callable[[Connection, Case], None], case: Case) -> Heard:
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


async def _listen(process: psutil.Process, port: int, case: Case) -> Heard:
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
                nursery.start_soon(_hear, stream)
            nursery.start_soon(_look, last, case.tokens, heard)
            await _say(port)
        took = time.time() - heard[0][0]
    delays = tuple((read - said) * 1000 for said, read in heard)
    return Heard(case.listeners * case.tokens / took, delays, grown)


async def _connect(held: AsyncExitStack, port: int, what: str) -> trio.SocketStream:
    stream = await held.enter_async_context(await trio.open_tcp_stream("127.0.0.1", port))
    await stream.send_all(
        f"{what} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {KEY}\r\n\r\n".encode()
    )
    got = b""
    while b": connected" not in got:
        got += await stream.receive_some(65536)
    return stream


async def _say(port: int) -> None:
    """Let the run begin."""
    body = b'{"text": "go"}'
    async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
        head = (
            "POST /api/sessions/one/messages HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
            f"Authorization: Bearer {KEY}\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        await stream.send_all(head.encode() + body)
        async for _ in stream:
            pass


async def _hear(stream: trio.SocketStream) -> None:
    """Read to the last token, and look at nothing else."""
    tail = b""
    while END not in tail:
        data = await stream.receive_some(65536)
        assert data, "nobody is cut off here"
        tail = tail[-len(END) :] + data


async def _look(stream: trio.SocketStream, tokens: int, heard: list[tuple[float, float]]) -> None:
    """Read so many tokens, and note when each was said and when it was read."""
    rest = b""
    while len(heard) < tokens:
        data = await stream.receive_some(65536)
        assert data, "nobody is cut off here"
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
    """A connection, and what is to be sent there."""

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
