"""The tree of a gateway in another program's Trio: a cancellation from outside is an ending.

A cancellation around the tree is a stop without grace. The tree runs shielded in a task of its own, so it is
not torn down from outside; a sibling task turns the cancellation into the ending, which gives the shield its
deadline. The body of the block can be cancelled as usual.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import TypedDict

import trio

from ..base.world import World
from ..gateway.ending.control import Control
from ..gateway.ending.endings_table import MARGIN, Cause, Ending, Supervisor
from ..gateway.facade import RunningGateway
from ..gateway.links.adapters import refuse_unnamed
from ..gateway.serve import Door, Guarded, Setup, serve
from ..host.loop.worker import Worker

LEFT = "left or cancelled by the host"


class Plugs(TypedDict, total=False):
    """Optional parts of a gateway, besides its agent and its adapters."""

    doors: Sequence[Door]
    world: World
    worker: Worker
    guarded: Guarded


async def _serve_shielded(setup: Setup, task_status: trio.TaskStatus[RunningGateway]) -> None:
    refuse_unnamed(setup.adapters, setup.config)
    control = Control()
    # The only shield without a deadline of its own: it gets one as soon as there is an ending.
    shield = trio.CancelScope(shield=True)

    async def tree() -> None:
        with shield:
            await serve(setup, control=control, supervised_by=Supervisor.HOST, task_status=task_status)
        nursery.cancel_scope.cancel(reason="the gateway has ended")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(tree, name="gateway")
        try:
            await trio.sleep_forever()
        finally:
            if not nursery.cancel_scope.cancel_called:  # else it has ended by itself
                control.ask(Ending(Cause.PLANNED, grace=0, asked_by=LEFT))
                control.hurry()  # an earlier ending may have a grace of its own
                shield.deadline = trio.current_time() + MARGIN


@asynccontextmanager
async def open_tree(setup: Setup) -> AsyncIterator[RunningGateway]:
    """Open a gateway on Trio that serves as long as the block."""
    try:
        async with trio.open_nursery() as nursery:
            with trio.CancelScope() as body:

                async def serving(task_status: trio.TaskStatus[RunningGateway]) -> None:
                    await _serve_shielded(setup, task_status)
                    body.cancel(reason="the gateway has ended")

                yield await nursery.start(serving)
            nursery.cancel_scope.cancel(reason="the block is left")
    except BaseExceptionGroup as group:
        # The caller sees no nursery and writes `except HomeBusy`, so a single error is raised bare.
        error: BaseException = group
        while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
            error = error.exceptions[0]
        context = error.__context__
        try:
            raise error  # noqa: ASYNC123
        finally:
            error.__context__ = context  # not the group that it was taken out of
