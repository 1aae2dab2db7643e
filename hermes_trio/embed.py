"""The gateway inside somebody else's program, on Trio or on anyio's Trio backend.

    async with open_gateway(home, config, agent=answer, adapters=[mine]) as gateway:
        ...                                    # it serves as long as this block

It sets no signal handlers, configures no logging and keeps nothing global: two gateways in one program
are two homes. Leaving the block is a stop without grace.

Cancelling around it is a stop without grace too, and not a torn tree: the tree runs shielded in a task of
its own, and a sibling turns the cancellation into the ending, which gives the shield its deadline. The
body of the block stays cancellable.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from pathlib import Path

import trio

from .config import GatewayConfig
from .gateway.control import Control
from .gateway.ending import MARGIN, Cause, Ending
from .gateway.gateway import Gateway
from .gateway.serve import Door, Guarded
from .gateway.serve import serve as _serve
from .gateway.turn import Agent
from .host.guard import open_guard
from .host.worker import Worker, worker_thread
from .platform import Adapter
from .world import World


async def serve(
    home: Path,
    config: GatewayConfig,
    *,
    agent: Agent | AbstractAsyncContextManager[Agent],
    adapters: Sequence[Adapter],
    doors: Sequence[Door] = (),
    world: World | None = None,
    worker: Worker = worker_thread,
    guarded: Guarded = open_guard,
    task_status: trio.TaskStatus[Gateway] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve until the gateway is asked to end, or this is cancelled. `await nursery.start(partial(serve,
    ...))` returns the `Gateway` once its doors are open."""
    control = Control()
    # The one shield without a deadline of its own: it gets one the moment there is an ending.
    shield = trio.CancelScope(shield=True)

    async def tree() -> None:
        with shield:
            await _serve(
                home,
                config,
                agent=agent,
                adapters=adapters,
                doors=doors,
                control=control,
                world=world,
                worker=worker,
                guarded=guarded,
                task_status=task_status,
            )
        nursery.cancel_scope.cancel(reason="the gateway has ended")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(tree, name="gateway")
        try:
            await trio.sleep_forever()
        finally:
            control.ask(Ending(Cause.PLANNED, grace=0, asked_by="cancelled from outside"))
            control.hurry()  # another ending may count already, with a grace of its own
            shield.deadline = trio.current_time() + MARGIN


@asynccontextmanager
async def open_gateway(
    home: Path,
    config: GatewayConfig,
    *,
    agent: Agent | AbstractAsyncContextManager[Agent],
    adapters: Sequence[Adapter],
    doors: Sequence[Door] = (),
    world: World | None = None,
    worker: Worker = worker_thread,
    guarded: Guarded = open_guard,
) -> AsyncIterator[Gateway]:
    """A gateway that serves as long as the block."""
    start = partial(
        serve,
        home,
        config,
        agent=agent,
        adapters=adapters,
        doors=doors,
        world=world,
        worker=worker,
        guarded=guarded,
    )
    async with trio.open_nursery() as nursery:
        yield await nursery.start(start)
        nursery.cancel_scope.cancel(reason="the block is left")
