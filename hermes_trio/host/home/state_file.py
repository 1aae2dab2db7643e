"""`gateway_state.json`: the state of the gateway, for readers outside of it.

This module holds its value and the function that reads it. The only writer is `keep_status` in
`status_board`: the command line reads without Trio, whose import takes longer than the rest of `hermes-trio
status`.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Literal

import msgspec

from ..files.json_files import UnreadableFile, read_small
from ..processes.process_identity import ProcessId

STATUS_FILE = "gateway_state.json"


class GatewayState(StrEnum):
    """The state of the gateway."""

    STARTING = "starting"
    RUNNING = "running"
    DEGRADED = "degraded"
    """Running, and not every platform is connected. Computed, never set."""
    DRAINING = "draining"
    STOPPED = "stopped"
    STARTUP_FAILED = "startup_failed"


class PlatformState(StrEnum):
    """The state of a platform's link."""

    CONNECTING = "connecting"
    CONNECTED = "connected"
    RETRYING = "retrying"
    FATAL = "fatal"
    """Its credentials are refused; the link is not retried."""
    DISABLED = "disabled"


class PlatformStatus(msgspec.Struct, frozen=True):
    """The state of one platform, and its problem in words."""

    state: PlatformState
    error: str | None = None


Afterwards = Literal["running", "stopped", "startup_failed"]


class Status(msgspec.Struct, frozen=True, kw_only=True):
    """The content of the file."""

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
    """Reason why the start failed, with the remedy."""
    restart_requested: bool = False
    after: Afterwards | None = None
    """While draining: the state to assume if this file is never written again."""
    grace: float | None = None
    """Seconds that turns may continue after a stop request."""
    deadline: float | None = None
    """While ending: the latest end, in seconds since 1970."""
    web: str | None = None
    """The address of the page and the API: `http://127.0.0.1:8642`."""
    since: datetime | None = None
    """When the gateway started."""
    version: str | None = None
    """The version of hermes-trio that runs, if the page and the API are served."""

    @property
    def process(self) -> ProcessId:
        """The gateway that wrote the file."""
        return ProcessId(self.pid, self.start_time, self.boot)


START_FAILED = "start failed"
"""The `exit_reason` of a life that ended before it accepted messages."""


def is_wanted(status: Status | None) -> bool:
    """Return True if the gateway that left this status is to run again when its machine or container
    starts."""
    if status is None:
        return False
    drained = status.gateway_state is GatewayState.DRAINING and status.after
    left = drained or status.gateway_state
    return status.restart_requested or left not in (GatewayState.STOPPED, GatewayState.STARTUP_FAILED)


def read_status(home: Path) -> Status | None:
    """Return the last status of this home; None if there is none that can be read."""
    try:
        data, _ = read_small(home / STATUS_FILE)
        return msgspec.json.decode(data, type=Status)
    except (OSError, UnreadableFile, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
