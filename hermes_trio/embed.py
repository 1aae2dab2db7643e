"""The gateway inside somebody else's program, on Trio or on anyio's Trio backend.

    async with open_gateway(home, config, agent=answer, adapters=[mine]) as gateway:
        ...                                    # it serves as long as this block
    gateway.control.current                    # the `Ending`: why it does not serve any more

It sets no signal handlers, configures no logging and keeps nothing global: two gateways in one program
are two homes. Leaving the block is a stop without grace.

The gateway may end first: `gateway.stop()`, the admin route, every platform refusing it. Then the body of the
block is cancelled, and the block is left without an error once the tree has ended: no program goes on with a
gateway that is dead. `gateway.control.current` tells the two apart: its `asked_by` is `LEFT` if the block was
left or cancelled. `/restart` in a chat and by HTTP is refused, for only the host can restart itself; a host
that can calls `gateway.stop(restart=True)` and opens the next gateway after the block.

Cancelling around it is a stop without grace too, and not a torn tree: the tree runs shielded in a task of
its own, and a sibling turns the cancellation into the ending, which gives the shield its deadline. The
body of the block stays cancellable.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import TypedDict, Unpack

import trio

from .base.world import World
from .config.schema import GatewayConfig
from .gateway.ending.control import Control
from .gateway.ending.endings_table import MARGIN, Cause, Ending, Supervisor
from .gateway.facade import Gateway
from .gateway.links.adapters import refuse_unnamed
from .gateway.serve import Door, Guarded, Setup
from .gateway.serve import serve as _serve
from .gateway.turn.agent_function import Agent
from .host.loop.worker import Worker
from .platform.contract import Adapter

LEFT = "left or cancelled by the host"


class Plugs(TypedDict, total=False):
    """What may be plugged into a gateway besides its agent and its adapters."""

    doors: Sequence[Door]
    world: World
    worker: Worker
    guarded: Guarded


async def serve(
    home: str | os.PathLike[str],
    config: GatewayConfig,
    *,
    agent: Agent | AbstractAsyncContextManager[Agent],
    adapters: Sequence[Adapter],
    task_status: trio.TaskStatus[Gateway] = trio.TASK_STATUS_IGNORED,
    **plugs: Unpack[Plugs],
) -> None:
    """Serve until the gateway is asked to end, or this is cancelled. `await nursery.start(partial(serve,
    ...))` returns the `Gateway` once its doors are open."""
    setup = Setup(Path(home), config, agent=agent, adapters=adapters, **plugs)
    await _serve_shielded(setup, task_status)


async def _serve_shielded(setup: Setup, task_status: trio.TaskStatus[Gateway]) -> None:
    refuse_unnamed(setup.adapters, setup.config)
    control = Control()
    # The one shield without a deadline of its own: it gets one the moment there is an ending.
    shield = trio.CancelScope(shield=True)

    async def tree() -> None:
        with shield:
            await _serve(setup, control=control, supervised_by=Supervisor.HOST, task_status=task_status)
        nursery.cancel_scope.cancel(reason="the gateway has ended")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(tree, name="gateway")
        try:
            await trio.sleep_forever()
        finally:
            if not nursery.cancel_scope.cancel_called:  # else the tree has ended, and its ending stands
                control.ask(Ending(Cause.PLANNED, grace=0, asked_by=LEFT))
                control.hurry()  # another ending may count already, with a grace of its own
                shield.deadline = trio.current_time() + MARGIN


@asynccontextmanager
async def open_gateway(
    home: str | os.PathLike[str],
    config: GatewayConfig,
    *,
    agent: Agent | AbstractAsyncContextManager[Agent],
    adapters: Sequence[Adapter],
    **plugs: Unpack[Plugs],
) -> AsyncIterator[Gateway]:
    """Open a gateway that serves as long as the block."""
    setup = Setup(Path(home), config, agent=agent, adapters=adapters, **plugs)
    try:
        async with trio.open_nursery() as nursery:
            with trio.CancelScope() as body:

                async def serving(task_status: trio.TaskStatus[Gateway]) -> None:
                    await _serve_shielded(setup, task_status)
                    body.cancel(reason="the gateway has ended")

                yield await nursery.start(serving)
            nursery.cancel_scope.cancel(reason="the block is left")
    except ExceptionGroup as group:
        # Whoever opens a gateway sees no nursery, and writes `except HomeBusy`: a single error leaves bare.
        error: Exception = group
        while isinstance(error, ExceptionGroup) and len(error.exceptions) == 1:
            error = error.exceptions[0]
        context = error.__context__
        try:
            raise error  # noqa: ASYNC123
        finally:
            error.__context__ = context  # not the group that it was taken out of
