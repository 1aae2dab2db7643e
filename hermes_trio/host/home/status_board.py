"""Keeping `gateway_state.json`.

Whoever learns a fact sets it on the board and goes on. One task, woken by that, writes the file. What
follows from facts (that a gateway with a lost platform is degraded) is computed when it is written, so
nobody who knows less can overwrite it.

Changes within a tenth of a second are one write. A new state does not wait: whoever finds the file
after a kill must read that we were ending, and what to make of it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypedDict, Unpack

import msgspec
import trio

from ...base.errors import EXIT_CONFIG, GatewayError
from ...base.pulse import Pulse, Wakeup
from ...base.world import World
from ...log import Log
from ..files.json_files import write_small
from ..loop.worker import Runner, finished
from ..processes.process_identity import ProcessId
from .home_lock import LOCK_FILE, HomeLock, locked_home
from .state_file import (
    START_FAILED,
    STATUS_FILE,
    Afterwards,
    GatewayState,
    PlatformState,
    PlatformStatus,
    Status,
    shown_state,
)

WRITE_EVERY = 0.1
LAST_WRITE_WITHIN = 0.5

log = Log(__name__)


class Facts(TypedDict, total=False):
    """What can be set."""

    state: GatewayState
    active_turns: int
    exit_reason: str | None
    error: str | None
    restart_requested: bool
    after: Afterwards
    grace: float | None
    deadline: float | None
    web: str | None


class StatusBoard:
    """The facts, set by those who know them."""

    def __init__(self, me: ProcessId, instance: str, world: World) -> None:
        self._me, self._instance, self._world = me, instance, world
        self._facts: Facts = {
            "state": GatewayState.STARTING,
            "active_turns": 0,
            "exit_reason": None,
            "restart_requested": False,
        }
        self._platforms: dict[str, PlatformStatus] = {}
        self._version = 1
        self._tried = self._saved = 0  # versions
        self._began = -math.inf  # the last write
        self._to_write, self._urgent = Wakeup(), Wakeup()
        self._changed, self._tried_to_write = Pulse(), Pulse()

    def set(self, **facts: Unpack[Facts]) -> None:
        """Note facts; those that are not named stay as they are."""
        before, self._facts = self._facts, {**self._facts, **facts}
        if self._facts["state"] != before["state"]:
            self._urgent.set()
        if self._facts != before:
            self._note_change()

    def set_failed_start(self, errors: Sequence[GatewayError]) -> None:
        """Note why the doors stayed closed. A start that may succeed the next time without help, as after a
        full disk, is left as one that is wanted."""
        self.set(exit_reason=START_FAILED, error="\n".join(map(str, errors)))
        if errors[0].exit_code == EXIT_CONFIG:
            self.set(state=GatewayState.STARTUP_FAILED)

    def set_platform(self, name: str, state: PlatformState, error: str | None = None) -> None:
        """Note how the link of a platform is."""
        now = PlatformStatus(state, error)
        if self._platforms.get(name) != now:
            self._platforms = {**self._platforms, name: now}
            self._note_change()

    @property
    def status(self) -> Status:
        """What the file says if it is written now."""
        facts = self._facts
        draining = facts["state"] is GatewayState.DRAINING
        over = facts["state"] in (GatewayState.STOPPED, GatewayState.STARTUP_FAILED)
        return Status(
            gateway_state=shown_state(facts["state"], self._platforms),
            pid=self._me.pid,
            start_time=self._me.started,
            boot=self._me.boot,
            instance=self._instance,
            active_turns=facts["active_turns"],
            platforms=self._platforms,
            updated_at=self._world.now(),
            exit_reason=facts["exit_reason"],
            error=facts.get("error"),
            restart_requested=facts["restart_requested"],
            after=facts.get("after") if draining else None,
            grace=None if over else facts.get("grace"),
            deadline=facts.get("deadline") if draining else None,
            web=None if over else facts.get("web"),
        )

    @property
    def version(self) -> int:
        """Another one whenever something has been set."""
        return self._version

    async def changed_since(self, version: int) -> None:
        """Wait until something has been set since then."""
        while self._version == version:
            await self._changed.wait()

    async def written(self) -> None:
        """Wait until the file holds what is set now, or could not be written. Who must not wait for a
        disk that hangs puts a deadline around this."""
        version = self._version
        while self._tried < version:
            await self._tried_to_write.wait()

    def _note_change(self) -> None:
        self._version += 1
        self._to_write.set()
        self._changed.set()

    async def _write(self, path: Path, runner: Runner, lock: HomeLock) -> None:
        version, data = self._version, msgspec.json.encode(self.status)
        self._to_write.clear()
        self._urgent.clear()
        self._began = trio.current_time()

        def write() -> None:
            # Who looks for the owner of this home finds it by both files.
            with suppress(OSError):
                if lock.restore_file():
                    log.warning("lock file removed by another program; restored", file=LOCK_FILE)
            write_small(path, data)

        try:
            await finished(runner, write)
        except OSError as error:
            if self._tried == self._saved:  # once, not for every try
                log.warning("the state file cannot be written", file=path.name, error=str(error))
        else:
            self._saved = version
        self._tried = version
        self._tried_to_write.set()

    async def _keep(self, path: Path, runner: Runner, lock: HomeLock) -> None:
        while True:
            await self._to_write.wait()
            with trio.move_on_at(self._began + WRITE_EVERY):
                await self._urgent.wait()
            await trio.lowlevel.checkpoint_if_cancelled()  # whoever leaves writes once, below
            await self._write(path, runner, lock)


async def keep_status(board: StatusBoard, home: Path, runner: Runner, lock: HomeLock) -> None:
    """Keep the file as the board says, and the lock file beside it, until cancelled. What is set before the
    cancellation is written yet, if the disk lets us."""
    path = home / STATUS_FILE
    try:
        await board._write(path, runner, lock)
        await board._keep(path, runner, lock)
    finally:
        if board._saved < board._version:
            with trio.move_on_after(LAST_WRITE_WITHIN, shield=True) as last:
                await board._write(path, runner, lock)
            if last.cancelled_caught:
                log.warning("the disk is busy; the state file may be of before", file=path.name)


def leave_failed_start(home: Path, error: GatewayError, world: World) -> None:
    """Write into the state file why a gateway did not even begin to start. Do nothing where there is no home
    yet, or while another gateway has it: the file is its own."""
    if not home.is_dir():
        return
    with suppress(GatewayError, OSError), locked_home(home) as lock:
        board = StatusBoard(lock.process, world.new_id(), world)
        board.set_failed_start([error])
        write_small(home / STATUS_FILE, msgspec.json.encode(board.status))
