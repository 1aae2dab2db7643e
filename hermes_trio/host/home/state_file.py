"""`gateway_state.json`: what the gateway does, for everybody who looks from outside.

Here are its value and the reader. The one writer is `keep_status` in `status_board`: the command line
reads without Trio, whose import takes longer than all the rest of a `hermes-trio status`.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Literal

import msgspec

from ..files.json_files import UnreadableFile, read_small
from ..processes.process_identity import ProcessId

STATUS_FILE = "gateway_state.json"


class GatewayState(StrEnum):
    """What the gateway does."""

    STARTING = "starting"
    RUNNING = "running"
    DEGRADED = "degraded"
    """Running, and not every platform is connected. Computed, never set."""
    DRAINING = "draining"
    STOPPED = "stopped"
    STARTUP_FAILED = "startup_failed"


class PlatformState(StrEnum):
    """How a link is."""

    CONNECTING = "connecting"
    CONNECTED = "connected"
    RETRYING = "retrying"
    FATAL = "fatal"
    """Its credentials are refused; it is not tried again."""
    DISABLED = "disabled"


class PlatformStatus(msgspec.Struct, frozen=True):
    """One platform, and in words what is wrong with it."""

    state: PlatformState
    error: str | None = None


Afterwards = Literal["running", "stopped", "startup_failed"]


class Status(msgspec.Struct, frozen=True, kw_only=True):
    """The file."""

    gateway_state: GatewayState
    pid: int
    start_time: float
    boot: str = ""
    instance: str
    active_turns: int = 0
    platforms: dict[str, PlatformStatus] = {}
    updated_at: datetime
    exit_reason: str | None = None
    error: str | None = None
    """Why the start failed, in words, with the remedy."""
    restart_requested: bool = False
    after: Afterwards | None = None
    """While draining: what to read this as if nothing more comes."""
    grace: float | None = None
    """Seconds that turns may go on when it is asked to end."""
    deadline: float | None = None
    """While ending: when it is over at the latest, in seconds since 1970."""
    web: str | None = None
    """Where the page and the API are: `http://127.0.0.1:8642`."""

    @property
    def process(self) -> ProcessId:
        """The gateway that wrote this."""
        return ProcessId(self.pid, self.start_time, self.boot)


START_FAILED = "start failed"
"""The `exit_reason` of a life that ended before its doors were open."""


def shown_state(state: GatewayState, platforms: Mapping[str, PlatformStatus]) -> GatewayState:
    """What a gateway in this state does, given how its platforms are."""
    if state is not GatewayState.RUNNING:
        return state
    well = (PlatformState.CONNECTED, PlatformState.DISABLED)
    return state if all(one.state in well for one in platforms.values()) else GatewayState.DEGRADED


def is_wanted(status: Status | None) -> bool:
    """Whether the gateway that left this is to run again when its machine or its container starts."""
    if status is None:
        return False
    drained = status.gateway_state is GatewayState.DRAINING and status.after
    left = drained or status.gateway_state
    return status.restart_requested or left not in (GatewayState.STOPPED, GatewayState.STARTUP_FAILED)


def read_status(home: Path) -> Status | None:
    """The last status of this home; None if there is none, or none that can be read."""
    try:
        data, _ = read_small(home / STATUS_FILE)
        return msgspec.json.decode(data, type=Status)
    except (OSError, UnreadableFile, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
