"""A gateway in memory, for tests of programs that embed one: an agent in one line, on a virtual clock.

    async with life(answer) as tried:
        assert await tried.gateway.say("first", "hello") == "Good morning."
        await tried.says("hello")                        # a person, in a chat of the platform in memory
        await tried.until(lambda: tried.chat().last == "Good morning.")
        await tried.passes(hours=1)

No file outside of its home is touched, no process is started, and the store works without a thread. On Trio
the clock is that of the run, which must be a `trio.testing.MockClock`. On asyncio the guest run of Trio gets
such a clock. It jumps while the test, and each agent on asyncio or in a thread, waits for a call into the
gateway, and stands still otherwise: waits of asyncio's own take real time, and no time of the gateway.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Unpack

import msgspec
import trio
from trio.testing import MockClock

from ..base.errors import GatewayError
from ..base.messages import MessageEvent
from ..base.world import World
from ..config.schema import GatewayConfig, PlatformConfig
from ..embed.configured_agent import AnyTool
from ..embed.embedding import open_gateway
from ..embed.gateway_handle import Gateway
from ..embed.host_loop import HostLoop, TrioLoop
from ..embed.shielded_tree import Plugs
from ..gateway.turn.agent_function import AnyAgent
from ..host.loop.outsiders import HELD_CLOCK, HeldClock
from ..host.loop.worker import inline_worker
from ..platform.contract import Adapter, Traits
from .memory_platform import MemoryPlatform
from .shown_chats import ShownChat
from .stage import Saying

BEGIN = datetime(2026, 5, 20, 12, 0, tzinfo=UTC)
"""The time of day at the beginning of a virtual clock."""
PERSON = "42"
"""The person of the direct chat that is meant if a test names none; may approve."""

TRAITS = Traits(edits=True, typing=True)
LONGEST = 86400.0
"""Seconds for a condition to hold. Without a limit the clock would jump for ever."""


class ClockNotVirtual(GatewayError):
    """A life was to be opened in a run of Trio with a real clock."""

    def __init__(self) -> None:
        super().__init__(
            "The clock of this run is real. With pytest-trio or anyio use the fixture `hermes_life` in the "
            "test itself; else give `clock=trio.testing.MockClock(autojump_threshold=0)` to `trio.run`."
        )


@dataclass(frozen=True, slots=True)
class Life:
    """A running gateway and the people of its platform, for the loop of the test."""

    gateway: Gateway
    platform: MemoryPlatform
    """For failures on demand, as `platform.fails(…)`. Its async methods are Trio's."""
    _loop: HostLoop

    async def says(self, text: str, **how: Unpack[Saying]) -> MessageEvent:
        """Send a message as a person, and wait until the gateway has accepted it."""
        return await self._loop.call(partial(self.platform.says, text, **how))

    async def presses(self, label: str, **how: Unpack[Saying]) -> MessageEvent:
        """Press the newest button with this label, and wait until the gateway has accepted the event."""
        return await self._loop.call(partial(self.platform.presses, label, **how))

    def chat(self, chat_id: str = PERSON) -> ShownChat:
        """Return what a chat shows."""
        return self.platform.chat(chat_id)

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until the condition holds. It is checked after each change of the platform. Raises
        `trio.TooSlowError` after a day."""
        await self._loop.call(partial(self._until, condition))

    async def _until(self, condition: Callable[[], bool]) -> None:
        with trio.fail_after(LONGEST):
            await self.platform.until(condition)

    async def passes(self, **duration: float) -> None:
        """Let time pass for the gateway, given as to `datetime.timedelta`."""
        await self._loop.call(partial(trio.sleep, timedelta(**duration).total_seconds()))


@dataclass(frozen=True, slots=True)
class Lives:
    """The lives of one home, on one clock: call it once for each."""

    home: Path
    clock: MockClock = field(default_factory=partial(MockClock, autojump_threshold=0))
    """The clock of a guest run on asyncio. On Trio the run has its own."""
    platform: MemoryPlatform = field(default_factory=partial(MemoryPlatform, traits=TRAITS))
    """The people and their chats, which outlive a gateway."""

    @asynccontextmanager
    async def __call__(
        self,
        agent: AnyAgent | None = None,
        config: GatewayConfig | None = None,
        *,
        tools: Sequence[AnyTool] = (),
        adapters: Sequence[Adapter] = (),
        **plugs: Unpack[Plugs],
    ) -> AsyncIterator[Life]:
        """Open a gateway on this home for the block. Leaving it is a stop without grace."""
        platform = self.platform
        config = _letting_in(config or GatewayConfig(), platform)
        world = World(now=lambda: BEGIN + timedelta(seconds=trio.current_time()))
        in_memory: Plugs = {"world": world, "worker": inline_worker, "guarded": _unguarded, **plugs}
        async with AsyncExitStack() as stack:
            loop: HostLoop = TrioLoop()
            if trio.lowlevel.in_trio_task():
                _hold_clock()
            else:
                from ..embed.guest_run import join_guest  # a program on Trio never loads asyncio

                loop = guest = await stack.enter_async_context(join_guest(self.clock))
                _hold_clock()
                stack.enter_context(guest.outsider.working())
            adapters = (platform, *adapters)
            opened = open_gateway(self.home, config, agent=agent, tools=tools, adapters=adapters, **in_memory)
            gateway = await stack.enter_async_context(opened)
            yield Life(gateway, platform, loop)


@asynccontextmanager
async def life(
    agent: AnyAgent | None = None,
    config: GatewayConfig | None = None,
    *,
    tools: Sequence[AnyTool] = (),
    home: str | os.PathLike[str] | None = None,
    adapters: Sequence[Adapter] = (),
    platform: MemoryPlatform | None = None,
    **plugs: Unpack[Plugs],
) -> AsyncIterator[Life]:
    """Open a gateway in memory for the block; without `home` in a directory that is removed after it."""
    with TemporaryDirectory(prefix="hermes-life-") as directory:
        lives = Lives(Path(home or directory))
        if platform is not None:
            lives = replace(lives, platform=platform)
        async with lives(agent, config, tools=tools, adapters=adapters, **plugs) as opened:
            yield opened


@asynccontextmanager
async def _unguarded() -> AsyncIterator[None]:
    """Guard no child processes: a guard is a process itself, for which a virtual clock does not wait."""
    yield


def _letting_in(config: GatewayConfig, platform: MemoryPlatform) -> GatewayConfig:
    """Let everybody in on the platform, unless the configuration names it."""
    everybody = PlatformConfig(allow_from="all", allow_admin_from=(PERSON,))
    return msgspec.structs.replace(config, platforms={platform.name: everybody, **config.platforms})


def _hold_clock() -> None:
    """Let the outsiders of this run hold its clock. Raises `ClockNotVirtual`."""
    clock = trio.lowlevel.current_clock()
    if not isinstance(clock, MockClock):
        raise ClockNotVirtual
    if HELD_CLOCK.get() is None:
        HELD_CLOCK.set(HeldClock(clock))
