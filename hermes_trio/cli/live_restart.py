"""A restart in which another process takes over: the walk of it, from the request to the last step.

1. The successor is started beside the gateway, which works on. A successor that is not ready in time, has a
   problem, or would change the store so that this version cannot open it any more, changes nothing.
2. The gateway works on until no turn runs. So no turn is cut, and no chat notices anything. If that moment
   does not come within the time that was asked for, the grace of any restart begins.
3. The gateway ends with the cause `handed over`: it tells nobody, and closes everything but the lock of its
   home and the listening sockets. Clients that connect now wait in the queue of the socket.
4. The successor gets both. Its life begins as after any restart: it takes up what is stored.
5. When it serves, this process exits. If it does not, a new life begins in this process.

Everything of this is one task, so the successor ends with it if the gateway ends for another cause.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field

import trio

from ..gateway.ending.endings_table import Cause, Ending, Supervisor
from ..gateway.facade import RunningGateway
from ..gateway.operations.gateway_actions import LiveTerms, NotLive
from ..gateway.session.running_turns import RunningTurns
from ..host.home.home_lock import HomeLock
from ..host.processes.signals import ask_to_stop
from ..host.service.listening_sockets import ListeningSockets
from ..host.service.sd_notify import name_main_process
from ..host.service.successor import Successor, SuccessorFailed, started_successor
from ..log import Log
from ..state.db.database import Database
from ..state.db.migrations import applied_steps

log = Log(__name__)


@dataclass(frozen=True, slots=True)
class LiveRestart:
    """The lock and the sockets that a gateway hands over, and the command that starts its successor."""

    command: Sequence[str]
    lock: HomeLock
    sockets: ListeningSockets
    nursery: trio.Nursery
    over: trio.Event = field(default_factory=trio.Event)
    """Set when the gateway has ended, and everything but the lock and the sockets is closed."""
    _one: trio.Lock = field(default_factory=trio.Lock)

    async def request(self, gateway: RunningGateway, terms: LiveTerms) -> int:
        """Begin a live restart. Return the pid of the successor when it is ready. Raises `NotLive` and
        `SuccessorFailed`."""
        if why := why_not_live(gateway.shutdown.supervised_by):
            raise NotLive(why)
        pid: int = await self.nursery.start(self.walk, gateway, terms)
        return pid

    async def walk(
        self, gateway: RunningGateway, terms: LiveTerms, *, task_status: trio.TaskStatus[int]
    ) -> None:
        """Walk through the steps. Reports the pid of the successor when it is ready; a failure before that is
        raised."""
        if self._one.locked():
            raise NotLive("another live restart has begun")
        version = None
        try:
            async with self._one, started_successor(self.command, os.environ) as successor:
                version = await checked_version(successor, terms.ready_within, gateway.home.database)
                log.info("successor ready", pid=successor.pid, version=version)
                task_status.started(successor.pid)
                await no_turn_runs(gateway.work.running, terms.wait)
                successor.check()
                grace = gateway.home.config.agent.restart_drain_timeout
                if terms.grace is not None:
                    grace = terms.grace
                ending = Ending(Cause.HANDED_OVER, grace, asked_by=f"successor {successor.pid}")
                gateway.control.ask(ending)  # if it ends for another cause, this task is cancelled
                await self.over.wait()
                await self._give(successor)
                log.info("successor serves", pid=successor.pid)
                pass_on_stop(gateway, successor)
        except SuccessorFailed as error:
            log.error("successor failed; this process goes on", error=str(error))
            if version is None:
                raise
            if self.over.is_set():
                self.lock.take_back()

    async def _give(self, successor: Successor) -> None:
        await successor.take_over(self.lock.descriptors, [one.fileno() for one in self.sockets.kept])
        self.lock.hand_on()
        await name_main_process(os.environ, successor.pid)


async def checked_version(successor: Successor, within: float, database: Database) -> str:
    """Wait until the successor is ready, and return its version. Raise `SuccessorFailed` if only one of the
    two versions can open the store once the successor has: then no process could go on if that one fails."""
    ready = await successor.ready(within)
    applied = (await database.read(applied_steps)).keys()
    known, version = frozenset(ready.schema_steps), ready.version
    if new := known - applied:
        raise SuccessorFailed(
            f"version {version} changes the store (schema step {min(new)}), and the running version could "
            "not open it any more. Use `hermes-trio restart` without `--live`; it keeps a copy of the store"
        )
    if missing := applied - known:
        raise SuccessorFailed(
            f"version {version} cannot open the store (it lacks schema step {max(missing)})"
        )
    return version


async def no_turn_runs(running: RunningTurns, wait: float) -> None:
    """Wait until no turn runs, for at most this time."""
    with trio.move_on_after(wait):
        while len(running):
            await running.changed.wait()


def pass_on_stop(gateway: RunningGateway, successor: Successor) -> None:
    """Pass on a stop that was requested while the successor took over. Its signal came to this process."""
    ending = gateway.control.current
    if ending is None or ending.kind == "restart":
        return
    ask_to_stop(successor.pid, announced=ending.cause is not Cause.PLANNED)  # SIGINT is always a planned stop


def why_not_live(supervised_by: Supervisor) -> str | None:
    """Return why no other process can take the place of this one; None if one can."""
    if sys.platform == "win32":
        return "Windows passes no listening sockets to a successor"
    if supervised_by is Supervisor.OTHER:
        return "the supervisor would take the exit of this process for the end of the gateway"
    return None
