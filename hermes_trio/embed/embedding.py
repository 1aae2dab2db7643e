"""A gateway in a program, on the event loop on which the program runs.

    async with open_gateway(home, agent=answer) as gateway:
        print(await gateway.say("first", "hello"))     # the gateway serves while this block runs
    gateway.ending                                     # why it has ended

No signal handlers are set, no logging is configured and nothing is global: two gateways in one program are
two homes. Leaving the block is a stop without grace.

The gateway may end first: after `gateway.stop()` or the admin route. Then the body of the block is cancelled,
and the block is left without an error once the tree has ended, so that no program continues with a dead
gateway. `gateway.ending` tells the two cases apart: its `asked_by` is `LEFT` if the block was left or
cancelled. `/restart` in a chat and by HTTP is refused, because only the host can restart itself. A host that
can do so calls `gateway.stop(restart=True)` and opens the next gateway after the block.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

import trio

from ..base.world import World
from ..config.schema import GatewayConfig
from ..gateway.operations.api_sessions import API_PLATFORM
from ..gateway.serve import Setup
from ..gateway.turn.agent_function import AnyAgent
from ..platform.contract import Adapter
from ..web.api.api_platform import ApiPlatform
from .configured_agent import AnyTool, agent_of
from .gateway_handle import Gateway
from .host_loop import OpenBlock, TrioLoop
from .shielded_tree import Plugs, open_tree

if TYPE_CHECKING:
    from .mounted_web import MountedWeb  # loads the whole web


@asynccontextmanager
async def open_gateway(
    home: str | os.PathLike[str],
    config: GatewayConfig | None = None,
    *,
    agent: AnyAgent | None = None,
    tools: Sequence[AnyTool] = (),
    adapters: Sequence[Adapter] = (),
    web: MountedWeb | None = None,
    **plugs: Unpack[Plugs],
) -> AsyncIterator[Gateway]:
    """Open a gateway that serves as long as the block, on Trio or on asyncio. Without an agent the model of
    the configuration answers, with these tools; the demo answers if no model is configured. `web` is the page
    and the API, which the program has mounted."""
    if not any(adapter.name == API_PLATFORM for adapter in adapters):
        adapters = (*adapters, ApiPlatform())  # the sessions of the program itself
    path, config = Path(home), config or GatewayConfig()
    plugs.setdefault("world", World())
    if web is not None:
        plugs["doors"] = (*plugs.get("doors", ()), web.door)
    agent = agent_of(agent, tools, path, config, plugs["world"])
    tree = open_tree(Setup(path, config, agent=agent, adapters=adapters, **plugs))
    if trio.lowlevel.in_trio_task():
        async with tree as running:
            with closing(OpenBlock(TrioLoop())) as block:
                yield Gateway(running, block)
        return
    from .guest_run import join_guest  # a program on Trio never loads asyncio

    async with join_guest() as guest, guest.entered(tree) as running:
        with closing(OpenBlock(guest)) as block:
            yield Gateway(running, block)


async def serve(
    home: str | os.PathLike[str],
    config: GatewayConfig | None = None,
    *,
    agent: AnyAgent | None = None,
    tools: Sequence[AnyTool] = (),
    adapters: Sequence[Adapter] = (),
    web: MountedWeb | None = None,
    task_status: trio.TaskStatus[Gateway] = trio.TASK_STATUS_IGNORED,
    **plugs: Unpack[Plugs],
) -> None:
    """Serve on Trio until the gateway is asked to end, or this is cancelled. `await
    nursery.start(partial(serve, ...))` returns the `Gateway` once its doors are open."""
    async with open_gateway(
        home, config, agent=agent, tools=tools, adapters=adapters, web=web, **plugs
    ) as gateway:
        task_status.started(gateway)
        await trio.sleep_forever()
