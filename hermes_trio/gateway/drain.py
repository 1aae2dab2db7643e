"""Stopping: from the ending that somebody asked for to the moment when no turn runs any more.

`t = 0` is when the ending is set. Its commit comes first, so that whatever kills us later, a turn
without an end was cut by it. Then no turn begins any more, the chats with a running turn are told, and
the nursery of the sessions has until `grace` to end by itself. Nothing is polled or counted: the
nursery is left when the last turn is over, or when the deadline cuts what is left.
"""

from __future__ import annotations

import logging
import math
from typing import TYPE_CHECKING

import structlog
import trio

from ..host.status import GatewayState
from .ending import MARGIN

if TYPE_CHECKING:
    from .gateway import Gateway

RECORD_WITHIN = 1.0

log = structlog.wrap_logger(logging.getLogger(__name__))


async def drain_active_agents(gateway: Gateway, work: trio.CancelScope) -> None:
    """Wait for an ending, and see to it that the work ends by it. Called in the body of the `work`
    nursery: when this returns, only the turns that still run hold it open."""
    ending = await gateway.control.ending()
    began = trio.current_time()
    gateway.sessions.close()
    gateway.ending.set()
    gateway.end_by = began + ending.grace + MARGIN
    # A disk that hangs must not keep the gateway from stopping: then the next start finds a crash.
    with trio.move_on_after(RECORD_WITHIN):
        await gateway.record(ending)
    log.info("ending", cause=ending.cause, grace=ending.grace, running=len(gateway.sessions.running))
    gateway.board.set(
        state=GatewayState.DRAINING,
        after=gateway.what_follows(ending).state_left,
        grace=ending.grace,
        deadline=gateway.world.time() + gateway.end_by - trio.current_time(),
    )
    gateway.notify_active_sessions_of_shutdown(ending)
    work.deadline = began + ending.grace


async def hurry(gateway: Gateway, work: trio.CancelScope) -> None:
    """When somebody asks a second time, the grace is over."""
    await gateway.control.hurried()
    gateway.end_by = trio.current_time() + MARGIN
    work.deadline = -math.inf


async def follow(gateway: Gateway, work: trio.CancelScope) -> None:
    """When a stop turns a restart into a stop, that is the ending that counts, and perhaps less grace."""
    await gateway.control.ending()
    began = trio.current_time()
    while True:
        ending = await gateway.control.changed()
        await gateway.record(ending)
        work.deadline = min(work.deadline, began + ending.grace)
