"""The facts for `gateway_state.json`, and the task that writes them.

A task that learns a fact sets it on the board and continues. One task, woken by that, writes the file. The
shown state (a gateway with a lost platform is degraded) is computed from the facts at each write, so no task
with fewer facts can overwrite it.

Changes within a tenth of a second are one write. A new state is written at once: after a kill the file must
show that the gateway was ending, and the state to assume.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
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
)

WRITE_EVERY = 0.1
LAST_WRITE_WITHIN = 0.5

log = Log(__name__)


class Facts(TypedDict, total=False):
    """The facts that can be set."""

    state: GatewayState
    active_turns: int
    exit_reason: str | None
    error: str | None
    restart_requested: bool
    after: Afterwards
    grace: float | None
    deadline: float | None
    web: str | None
    version: str | None


class StatusBoard:
    """The facts, set by the tasks that learn them."""

    def __init__(self, me: ProcessId, instance: str, world: World) -> None:
        self._me, self._instance, self._world = me, instance, world
        self._facts: Facts = {
            "state": GatewayState.STARTING,
            "active_turns": 0,
            "exit_reason": None,
            "restart_requested": False,
        }
        self._platforms: dict[str, PlatformStatus] = {}
        self._since = world.now()
        self._version = 1
        self._tried = self._saved = 0  # versions
        self._began = -math.inf  # the last write
        self._to_write, self._urgent = Wakeup(), Wakeup()
        self._changed, self._tried_to_write = Pulse(), Pulse()

    def set(self, **facts: Unpack[Facts]) -> None:
        """Set the named facts; the others stay unchanged."""
        before, self._facts = self._facts, {**self._facts, **facts}
        if self._facts["state"] != before["state"]:
            self._urgent.set()
        if self._facts != before:
            self._note_change()

    def set_failed_start(self, errors: Sequence[GatewayError]) -> None:
        """Note why the start failed. A start that may succeed later without a change by a person, as after a
        full disk, keeps its state, so that the gateway is started again."""
        self.set(exit_reason=START_FAILED, error="\n".join(map(str, errors)))
        if errors[0].exit_code == EXIT_CONFIG:
            self.set(state=GatewayState.STARTUP_FAILED)

    def set_platform(self, name: str, state: PlatformState, error: str | None = None) -> None:
        """Note the state of a platform's link."""
        now = PlatformStatus(state, error)
        if self._platforms.get(name) != now:
            self._platforms = {**self._platforms, name: now}
            self._note_change()

    @property
    def status(self) -> Status:
        """The content of the file if it is written now."""
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
            since=self._since,
            version=facts.get("version"),
        )

    @property
    def version(self) -> int:
        """A number that grows with every change."""
        return self._version

    async def changed_since(self, version: int) -> None:
        """Wait for a change after this version."""
        while self._version == version:
            await self._changed.wait()

    async def written(self) -> None:
        """Wait until the file holds the facts as they are now, or could not be written. A caller that must
        not wait for a hung disk sets a deadline."""
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
            # Both files name the owner of this home.
            with suppress(OSError):
                if lock.restore_file():
                    log.warning("lock file removed by another program; restored", file=LOCK_FILE)
            write_small(path, data)

        try:
            await finished(runner, write)
        except OSError as error:
            if self._tried == self._saved:  # once, not for every attempt
                log.warning("state file not written", file=path.name, error=str(error))
        else:
            self._saved = version
        self._tried = version
        self._tried_to_write.set()

    async def _keep(self, path: Path, runner: Runner, lock: HomeLock) -> None:
        while True:
            await self._to_write.wait()
            with trio.move_on_at(self._began + WRITE_EVERY):
                await self._urgent.wait()
            await trio.lowlevel.checkpoint_if_cancelled()  # when cancelled, `keep_status` writes once
            await self._write(path, runner, lock)


def shown_state(state: GatewayState, platforms: Mapping[str, PlatformStatus]) -> GatewayState:
    """Return the state to show: a running gateway is degraded while a platform is not connected."""
    if state is not GatewayState.RUNNING:
        return state
    well = (PlatformState.CONNECTED, PlatformState.DISABLED)
    return state if all(one.state in well for one in platforms.values()) else GatewayState.DEGRADED


async def keep_status(board: StatusBoard, home: Path, runner: Runner, lock: HomeLock) -> None:
    """Write the facts of the board into the file whenever they change, and put back a lock file that was
    removed, until cancelled. Facts that were set before the cancellation are still written, if the disk
    allows it."""
    path = home / STATUS_FILE
    try:
        await board._write(path, runner, lock)
        await board._keep(path, runner, lock)
    finally:
        if board._saved < board._version:
            with trio.move_on_after(LAST_WRITE_WITHIN, shield=True) as last:
                await board._write(path, runner, lock)
            if last.cancelled_caught:
                log.warning("disk busy; state file may be out of date", file=path.name)


def leave_failed_start(home: Path, error: GatewayError, world: World) -> None:
    """Write the reason of a start that failed before the gateway had its home. Do nothing where there is no
    home, or while another gateway has it and owns the file."""
    if not home.is_dir():
        return
    with suppress(GatewayError, OSError), locked_home(home) as lock:
        board = StatusBoard(lock.process, world.new_id(), world)
        board.set_failed_start([error])
        write_small(home / STATUS_FILE, msgspec.json.encode(board.status))
