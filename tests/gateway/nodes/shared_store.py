"""Several gateways that share one store, on one virtual clock: each has a home of its own, and one database,
one folder of journals and one platform are common. A gateway can be killed, paused and continued between any
two steps: what it gives to its disk and its platform from then on is lost, or held until it goes on.

The steps of all run inline in one process, one after the other: that is what a database with serialized
transactions does.
"""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TypeVar

import trio
from outcome import Outcome

from hermes_trio.base.world import World
from hermes_trio.gateway.facade import RunningGateway
from hermes_trio.gateway.nodes.lease import Node
from hermes_trio.gateway.serve import Setup, serve
from hermes_trio.host.loop.worker import Runner, inline_worker
from hermes_trio.platform.contract import LinkLost, PlatformError
from hermes_trio.state.db.engine import Engine
from hermes_trio.state.db.migrations import SchemaStep
from hermes_trio.state.rules.ownership import give_chat
from hermes_trio.state.tables import lives
from hermes_trio.testing import MemoryPlatform
from hermes_trio.testing.memory_platform import MemoryLink
from tests.stage import Agent, Stage, no_guard

T = TypeVar("T")

LEASE = 30.0
TAKEN_OVER = LEASE * 1.2 + 3
"""Seconds after which the work of a lost gateway is taken up: a lease, two looks, and a look at the chats."""


@dataclass
class SharedStore:
    """What the gateways have in common."""

    stage: Stage
    nursery: trio.Nursery
    running: dict[str, NodeLife] = field(default_factory=dict)
    _numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    @property
    def platform(self) -> MemoryPlatform:
        return self.stage.platform

    def open_engine(self, _: Path, world: World, steps: Sequence[SchemaStep]) -> Engine:
        return self.stage.open_engine(self.stage.home / "gateway.db", world, steps)

    async def start(self, name: str, node: Node | None = None) -> NodeLife:
        """Start the gateway of a home; left out: a node of the same name."""
        home = self.stage.home.with_name(name)
        if not home.exists():
            home.mkdir(mode=0o700, parents=True)
            (self.stage.home / "journal").mkdir(mode=0o700, parents=True, exist_ok=True)
            (home / "journal").symlink_to(self.stage.home / "journal")
        life = self.running[name] = NodeLife(self, node or Node(name, LEASE), home)
        await self.nursery.start(life.run)
        return life

    def owner(self, chat: str = "42") -> str | None:
        """Return the name of the gateway that owns a chat; None for nobody."""
        with self.stage.looking() as db:
            rows = db.execute(
                "SELECT node FROM chats JOIN lives USING (life) WHERE chat_id = ?", (chat,)
            ).fetchall()
        return rows[0][0] if rows else None

    def living(self) -> set[str]:
        """Return the names of the gateways that are not known to be over."""
        with self.stage.looking() as db:
            return {one.node for one in lives.living(db)}


class NodeLife:
    """One life of a gateway, as its disk, its adapter and its agent."""

    def __init__(self, store: SharedStore, node: Node, home: Path) -> None:
        platform = store.platform
        self.name, self.account, self.traits = platform.name, platform.account, platform.traits
        self.node, self._store, self._home = node, store, home
        self.gateway: RunningGateway | None = None
        self.agent = Agent()
        self.agent.scripts, self.agent.acts = store.stage.agent.scripts, store.stage.agent.acts
        self.over = trio.Event()
        self._scope = trio.CancelScope()
        self._goes_on = trio.Event()
        self._goes_on.set()
        self._held: list[Callable[[], None]] = []

    # --- verbs of a story ---

    def pause(self) -> None:
        """Stop the process, as SIGSTOP does."""
        self._goes_on = trio.Event()

    def continue_(self) -> None:
        """Let a paused process go on."""
        self._goes_on.set()
        held, self._held = self._held, []
        for job in held:
            job()

    def kill(self) -> None:
        """Kill the process: nothing that it does from now on has an effect."""
        self._goes_on, self._held = trio.Event(), []
        self._scope.cancel()

    async def give(self, chat: str, to: NodeLife) -> bool:
        """Give a chat to another gateway."""
        assert self.gateway is not None
        assert to.gateway is not None
        return await self.gateway.home.database.write(
            give_chat, self.gateway.home.life, to.gateway.home.life, self.name, self.account, chat
        )

    def stop(self) -> None:
        assert self.gateway is not None
        self.gateway.stop(grace=0, asked_by="the story")

    async def works(self) -> None:
        """Wait until the agent of this gateway was called."""
        while not self.agent.began:  # noqa: ASYNC110 - the agent of all tests tells nobody
            await trio.sleep(0.5)

    # --- the process ---

    async def run(self, task_status: trio.TaskStatus[None]) -> None:
        setup = Setup(
            self._home,
            self._store.stage.config,
            agent=self.agent,
            adapters=[self],
            world=self._store.stage.world,
            worker=self.worker,
            open_engine=self._store.open_engine,
            guarded=no_guard,
            node=self.node,
        )
        try:
            with self._scope:
                async with trio.open_nursery() as nursery:
                    self.gateway = await nursery.start(partial(serve, setup))
                    task_status.started()
        finally:
            self.over.set()

    @contextmanager
    def worker(self, name: str) -> Iterator[Runner]:
        with inline_worker(name) as runner:

            def run(job: Callable[[], T], done: Callable[[Outcome[T]], object]) -> None:
                if self._goes_on.is_set():
                    runner(job, done)
                else:
                    self._held.append(partial(runner, job, done))

            yield run

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[NodeLink]:
        await self._goes_on.wait()
        await self._store.platform.connecting()
        link = NodeLink(self._store.platform, self.goes_on)
        try:
            yield link
        finally:
            link.lose(quietly=False)

    async def goes_on(self) -> None:
        await self._goes_on.wait()


class NodeLink(MemoryLink):
    """A link of its own for each gateway: the platform takes several."""

    def __init__(self, platform: MemoryPlatform, goes_on: Callable[[], Awaitable[None]]) -> None:
        super().__init__(platform)
        self._goes_on = goes_on

    async def while_up(
        self, call: Callable[[], Awaitable[T]], error: Callable[[str], PlatformError] = LinkLost
    ) -> T:
        async def held() -> T:
            await self._goes_on()
            return await call()

        return await super().while_up(held, error)


@asynccontextmanager
async def shared_store(stage: Stage) -> AsyncIterator[SharedStore]:
    """Yield the store of several gateways. Those that run at the end of the block are stopped."""
    async with trio.open_nursery() as nursery:
        store = SharedStore(stage, nursery)
        yield store
        for life in store.running.values():
            if not life.over.is_set():
                life.continue_()
                life.stop()
