"""The cost of a turn in addition to its model: the time from a person's message to the first words on the
screen, and from the last word of the model to the delivered answer; the number of turns per second; and the
CPU time and memory of a turn.

The model is a server on this machine in a process of its own. The bare limit is a client, httpx on Trio, that
sends the same requests and reads the same answers and does nothing else: no database, no journal, no chat.
Both are measured in each round, one after the other, in processes of their own, so that noise of the machine
affects both. With many turns at once the server is the bottleneck of both: then the CPU time shows the cost
of a turn.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

import msgspec
import trio

from hermes_trio.agent.model_agent import open_agent
from hermes_trio.agent.prompt import system_prompt
from hermes_trio.agent.providers.endpoint import Endpoint
from hermes_trio.agent.providers.model import ModelRequest, ToolSpec
from hermes_trio.agent.providers.model_messages import UserMessage
from hermes_trio.agent.providers.wire.openai import chat_body
from hermes_trio.base.messages import MessageEvent, SessionSource
from hermes_trio.base.world import World
from hermes_trio.config.config_file import Loaded
from hermes_trio.config.schema import GatewayConfig, ModelConfig, PlatformConfig
from hermes_trio.gateway.serve import Setup, serve
from hermes_trio.host.loop.open_files import raise_open_files
from hermes_trio.platform.contract import Outgoing, Traits
from hermes_trio.state.tables.session_entry import SessionEntry
from hermes_trio.tools.all_tools import toolbox

from . import hosts
from .cheap_link import CheapLink
from .core import fresh, logged_home, resident
from .figures import Figure, beside, show
from .model import END, model_server

TURNS = {1: 60, 10: 200, 50: 400, 200: 800}
"""Number of measured turns, by the number of turns at once."""
ROUNDS = 3
CROWD = 1_000
LINKS = 8
"""Number of links: each takes a message when the one before it is on the disk."""
IN_A_SESSION = 5
"""Number of turns after which another person talks, so that no conversation grows without end."""
TEXT = "Tell me what there is to tell about the sea, please, in some forty words."


@dataclass(slots=True)
class Measured:
    """Times of some turns in milliseconds."""

    first: list[float] = field(default_factory=list)
    """Until the first words."""
    rest: list[float] = field(default_factory=list)
    """From there to the end."""
    wall: float = 0.0
    cpu: float = 0.0

    @property
    def rate(self) -> float:
        """Turns per second."""
        return len(self.first) / self.wall * 1000


def main(arguments: Sequence[str] = ()) -> int:
    """Measure and print all figures; takes a minute or two. With `--host` those of hosts instead."""
    parser = argparse.ArgumentParser(prog="python -m bench turn")
    help_ = "what this host costs beside Trio; may be given several times"
    parser.add_argument("--host", action="append", choices=list(hosts.HOSTS), help=help_)
    given = parser.parse_args(arguments)
    if given.host:
        return hosts.main(given.host)
    with model_server() as url:
        show("turn", [*_latency(url), *_rates(url), *_memory(url)])
    return 0


def _latency(url: str) -> Iterator[Figure]:
    rounds = [(fresh(_ours, url, "steady", 1), fresh(_bare, url, "steady", 1)) for _ in range(ROUNDS)]
    for name, of, limit in (("first words shown", "first", 5.0), ("answer delivered", "rest", 5.0)):
        ours = sorted(taken for mine, _ in rounds for taken in getattr(mine, of))
        bare = sorted(taken for _, other in rounds for taken in getattr(other, of))
        for percent in (50, 99):
            added = _percentile(ours, percent) - median(bare)
            goal, met = (f"<= {limit:g}", added <= limit) if percent == 50 else ("", None)
            yield Figure(f"{name}, added, p{percent}", added, "ms", goal=goal, met=met)


def _rates(url: str) -> Iterator[Figure]:
    for count in TURNS:
        rounds = [
            (fresh(_ours, url, "quick", count), fresh(_bare, url, "quick", count)) for _ in range(ROUNDS)
        ]
        rates = [(ours.rate, bare.rate) for ours, bare in rounds]
        yield beside(f"turns at once: {count}", "1/s", rates, at_least=0.3 if count == 50 else None)
        cpus = [(ours.cpu / len(ours.first), bare.cpu / len(bare.first)) for ours, bare in rounds]
        yield beside(f"turns at once: {count}, CPU of one", "ms", cpus)


def _memory(url: str) -> Iterator[Figure]:
    ours, bare = fresh(_crowded, url), fresh(_crowded_bare, url)
    name = f"{CROWD:,} answers growing at once, each"
    yield Figure(name, ours, "KB", bare=bare, ratio=ours / bare, goal="<= 100", met=ours <= 100)


def _percentile(values: Sequence[float], percent: int) -> float:
    return sorted(values)[min(len(values) - 1, math.ceil(len(values) * percent / 100) - 1)]


# --- the gateway -------------------------------------------------------------------------------------


@dataclass(slots=True)
class Waiting:
    """A person who waits for an answer."""

    began: float
    first: float = 0.0
    answered: trio.Event = field(default_factory=trio.Event)


class Crowd:
    """People who talk through several links."""

    def __init__(self) -> None:
        self.links = [CrowdLink(self, str(number)) for number in range(LINKS)]
        self.waiting: dict[str, Waiting] = {}
        self._sent = self._begun = 0
        self.crowd_has_begun = trio.Event()

    async def says(self, chat: str) -> tuple[float, float]:
        """Send a message and wait for the answer. Return the milliseconds to the first words, and from there
        to the end."""
        self._sent += 1
        waiting = self.waiting[chat] = Waiting(time.perf_counter())
        self.links[int(chat.partition("-")[0]) % LINKS].hears(chat, str(self._sent))
        await waiting.answered.wait()
        end = time.perf_counter()
        return (waiting.first - waiting.began) * 1000, (end - waiting.first) * 1000

    def sees(self, chat: str, text: str) -> None:
        """Note that a chat shows this text."""
        waiting = self.waiting[chat]
        if not waiting.first:
            waiting.first = time.perf_counter()
            self._begun += 1
            if self._begun == CROWD:
                self.crowd_has_begun.set()
        if text.endswith(END):
            waiting.answered.set()


class CrowdLink(CheapLink):
    """An account of the gateway on the platform of the crowd."""

    name, traits = "crowd", Traits(edits=True, typing=True)

    def __init__(self, crowd: Crowd, account: str) -> None:
        self.account, self._crowd = account, crowd
        self._send, self._receive = trio.open_memory_channel[MessageEvent](math.inf)

    def hears(self, chat: str, message_id: str) -> None:
        source = SessionSource("crowd", chat, user_id=chat, account=self.account)
        self._send.send_nowait(MessageEvent(source, TEXT, message_id=message_id))

    async def receive(self) -> AsyncIterator[MessageEvent]:
        async for event in self._receive:
            yield event

    async def send(self, message: Outgoing) -> str:
        await self.edit(message.chat_id, message.key, message.text)
        return message.key

    async def edit(self, chat_id: str, message_id: str, text: str, preformatted: object = ()) -> None:
        await trio.lowlevel.checkpoint()
        self._crowd.sees(chat_id, text)


@asynccontextmanager
async def _serving(home: Path, url: str, model: str) -> AsyncIterator[Crowd]:
    config = GatewayConfig(
        model=ModelConfig(provider="openai", base_url=url, name=model),
        platforms={"crowd": PlatformConfig(allow_from="all", gateway_restart_notification=False)},
    )
    loaded = Loaded(config, (), home / "config.yaml", {"model.provider": "config.yaml"})
    crowd = Crowd()
    async with trio.open_nursery() as nursery:

        async def serving(task_status: trio.TaskStatus[object]) -> None:
            agent = open_agent(loaded, {}, World())
            await serve(Setup(home, config, agent=agent, adapters=crowd.links), task_status=task_status)

        gateway = await nursery.start(serving)
        yield crowd
        gateway.stop(grace=0)


def _ours(url: str, model: str, at_once: int) -> Measured:
    async def run(home: Path) -> Measured:
        async with _serving(home, url, model) as crowd:
            return await _measured(
                at_once, lambda worker, number: crowd.says(f"{worker}-{number // IN_A_SESSION}")
            )

    with logged_home() as home:
        return trio.run(run, home)


def _crowded(url: str) -> float:
    """Return the kilobytes for each of many turns whose answers grow at the same time. All get their
    answer."""

    async def run(home: Path) -> float:
        async with _serving(home, url, "held") as crowd:
            before = resident()
            async with trio.open_nursery() as nursery:
                for number in range(CROWD):
                    nursery.start_soon(crowd.says, str(number))
                await crowd.crowd_has_begun.wait()
                now = resident()
            return (now - before) / CROWD

    raise_open_files()
    with logged_home() as home:
        return trio.run(run, home)


# --- the bare client ---------------------------------------------------------------------------------


class Bare:
    """HTTP clients that send the same requests and read the answers."""

    def __init__(self, url: str, model: str, count: int) -> None:
        import httpx  # noqa: ASYNC127

        self._url, self._begun = f"{url}/chat/completions", 0
        self.crowd_has_begun = trio.Event()
        timeout = httpx.Timeout(None)
        self.clients = [
            httpx.AsyncClient(verify=False, trust_env=False, timeout=timeout)  # noqa: S501 - no TLS here
            for _ in range(count)
        ]
        tools = tuple(ToolSpec(tool.name, tool.description, tool.parameters) for tool in toolbox().values())
        system = system_prompt(Path("/"), SessionEntry("", "", 0, 0), World().now())
        request = ModelRequest(messages=(UserMessage(TEXT),), system=system, tools=tools)
        self._body = chat_body(request, Endpoint("openai", url, model))

    async def asks(self, worker: int, number: int = 0) -> tuple[float, float]:
        """Send a request and read the answer. Return the milliseconds to the first words, and from there to
        the end."""
        began, first, said = time.perf_counter(), 0.0, ""
        content = msgspec.json.encode(self._body)
        headers = {"content-type": "application/json"}
        async with self.clients[worker].stream("POST", self._url, content=content, headers=headers) as answer:
            async for line in answer.aiter_lines():
                if line.startswith("data: {"):
                    choices = msgspec.json.decode(line[6:])["choices"]
                    delta = choices[0]["delta"].get("content") if choices else None
                    if delta and not first:
                        first = time.perf_counter()
                        self._begun += 1
                        if self._begun == CROWD:
                            self.crowd_has_begun.set()
                    said += delta or ""
        assert said.endswith(END)
        return (first - began) * 1000, (time.perf_counter() - first) * 1000


@asynccontextmanager
async def _clients(url: str, model: str, count: int) -> AsyncIterator[Bare]:
    bare = Bare(url, model, count)
    async with AsyncExitStack() as open_clients:
        for client in bare.clients:
            await open_clients.enter_async_context(client)
        yield bare


def _bare(url: str, model: str, at_once: int) -> Measured:
    async def run() -> Measured:
        async with _clients(url, model, at_once) as bare:
            return await _measured(at_once, bare.asks)

    return trio.run(run)


def _crowded_bare(url: str) -> float:
    async def run() -> float:
        before = resident()
        async with _clients(url, "held", CROWD) as bare, trio.open_nursery() as nursery:
            for number in range(CROWD):
                nursery.start_soon(bare.asks, number)
            await bare.crowd_has_begun.wait()
            now = resident()
        return (now - before) / CROWD

    raise_open_files()
    return trio.run(run)


# --- both --------------------------------------------------------------------------------------------


async def _measured(at_once: int, turn: Callable[[int, int], Awaitable[tuple[float, float]]]) -> Measured:
    """Measure turns: `at_once` workers take one turn after the other until the number is reached."""
    measured, left = Measured(), iter(range(TURNS[at_once]))

    async def work(worker: int) -> None:
        for number, _ in enumerate(left, start=1):
            first, rest = await turn(worker, number)
            measured.first.append(first)
            measured.rest.append(rest)

    for _ in range(3):  # imports and one-time work
        await turn(0, 0)
    wall, cpu = time.perf_counter(), time.process_time()
    async with trio.open_nursery() as nursery:
        for worker in range(at_once):
            nursery.start_soon(work, worker)
    measured.wall = (time.perf_counter() - wall) * 1000
    measured.cpu = (time.process_time() - cpu) * 1000
    return measured
