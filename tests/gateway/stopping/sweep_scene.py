"""A scene in which the same turn runs many times, in memory or with threads, sockets and processes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import trio

from hermes_trio.base.events import ToolCompleted, ToolStarted
from hermes_trio.base.world import World
from hermes_trio.config.schema import AgentConfig, GatewayConfig, StreamingConfig
from hermes_trio.embed.shielded_tree import open_tree
from hermes_trio.gateway.facade import RunningGateway
from hermes_trio.gateway.serve import Guarded, Setup
from hermes_trio.gateway.turn.context import TurnContext
from hermes_trio.host.loop.worker import Worker
from hermes_trio.platform.contract import Adapter, Traits
from hermes_trio.state.tables.transcript import ToolCall
from hermes_trio.testing import LoopbackAdapter, LoopbackServer, MemoryPlatform, open_loopback
from tests.gateway.stopping.orphans import Held, held
from tests.stage import everyone

Platform = MemoryPlatform | LoopbackServer
TRAITS = Traits(edits=True, typing=True)
PIECES = "I", " begin", "."
ANSWER = "I begin.\n\nDone."


@dataclass
class Scene:
    """A home, a platform and an agent for a turn that runs many times."""

    home: Path
    config: GatewayConfig
    opened_platform: Callable[[], AbstractAsyncContextManager[tuple[Platform, Adapter]]]
    tool: Callable[[TurnContext], Awaitable[None]]
    worker: Worker
    guarded: Guarded
    pace: float
    """Seconds between two pieces of the answer."""
    look_every: float
    patience: float
    """Seconds for the end of threads that the gateway does not wait for."""
    world: World = field(default_factory=World)
    visits: list[str] = field(default_factory=list)
    """Visits of the agent's context: `entered` and `left`."""

    async def agent(self, turn: TurnContext) -> str:
        for piece in PIECES:
            await turn.say(piece)
            await trio.sleep(self.pace)
        call = ToolCall("call-1", "terminal", '{"command": "make"}')
        await turn.calls("", call)
        await turn.emit(ToolStarted(call.name, call.id, "make"))
        await self.tool(turn)
        await turn.emit(ToolCompleted(call.name, call.id, "make"))
        await turn.result(call, "made")
        await turn.say("Done.")
        await trio.sleep(self.pace)
        return turn.text

    def life(self, home: Path, adapter: Adapter) -> AbstractAsyncContextManager[RunningGateway]:
        self.visits.clear()
        setup = Setup(
            home,
            self.config,
            agent=self._opened_agent(),
            adapters=[adapter],
            world=self.world,
            worker=self.worker,
            guarded=self.guarded,
        )
        return open_tree(setup)

    @asynccontextmanager
    async def _opened_agent(self) -> AsyncIterator[Callable[[TurnContext], Awaitable[str]]]:
        self.visits.append("entered")
        try:
            yield self.agent
        finally:
            await trio.sleep(self.pace)  # noqa: ASYNC102 - like the close of a client
            self.visits.append("left")

    async def at_rest(self) -> Held:
        """Return the resources when they do not change any more."""
        now, before = held(), None
        while now != before:
            await trio.sleep(self.patience / 20)
            now, before = held(), now
        return now

    async def holds_only(self, before: Held) -> None:
        with trio.move_on_after(self.patience):
            while held() != before:  # noqa: ASYNC110 - threads set no event at their end
                await trio.sleep(self.look_every)
        now = held()
        assert (now.beyond(before), before.beyond(now)) == ([], [])

    async def until(self, condition: Callable[[], object]) -> None:
        with trio.fail_after(60):
            while not condition():  # noqa: ASYNC110 - no event covers every condition
                await trio.sleep(self.look_every)


@asynccontextmanager
async def memory() -> AsyncIterator[tuple[Platform, Adapter]]:
    platform = MemoryPlatform(traits=TRAITS)
    yield platform, platform


@asynccontextmanager
async def sockets() -> AsyncIterator[tuple[Platform, Adapter]]:
    async with open_loopback("memory", traits=TRAITS) as platform:
        yield platform, LoopbackAdapter(platform.port, name="memory", traits=TRAITS)


def config(*, notify: float, warn: float, edit: float) -> GatewayConfig:
    return msgspec.structs.replace(
        everyone(
            AgentConfig(gateway_notify_interval=notify, gateway_timeout_warning=warn, gateway_timeout=60)
        ),
        streaming=StreamingConfig(edit_interval=edit),
    )


async def silence(_: TurnContext) -> None:
    await trio.sleep(8)
