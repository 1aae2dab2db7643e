"""`gateway_state.json`: what the gateway does, for everybody who looks from outside.

There is one writer, `keep_status`, and one value, `Status`. Whoever learns a fact sets it on the board
and goes on; what follows from facts (that a gateway with a lost platform is degraded) is computed when
it is written, so it cannot be overwritten by somebody who knows less.

Changes of a number within a tenth of a second are one write. A new state is written at once: whoever
finds the file after a kill must read that we were ending, and what to make of it.

The command line reads the file without Trio, which costs more than all the rest of a `status`. So Trio
is imported in the functions that wait.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypedDict, Unpack

import msgspec

from ..world import World
from .process import ProcessId
from .small_files import Unreadable, read_small, write_small

if TYPE_CHECKING:
    import trio

    from .worker import Runner

STATUS_FILE = "gateway_state.json"
WRITE_EVERY = 0.1
LAST_WRITE_WITHIN = 0.5


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


class Facts(TypedDict, total=False):
    """What can be set on the board."""

    state: GatewayState
    active_turns: int
    after: Literal["running", "stopped"]
    exit_reason: str | None
    restart_requested: bool
    grace: float
    deadline: float


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
    restart_requested: bool = False
    after: Literal["running", "stopped"] | None = None
    """While draining: what to read this as if nothing more comes."""
    grace: float | None = None
    deadline: float | None = None
    """While ending: when it is over at the latest, in seconds since 1970."""

    @property
    def process(self) -> ProcessId:
        return ProcessId(self.pid, self.start_time, self.boot)


def read_status(home: Path) -> Status | None:
    """The last status of this home; None if there is none, or none that can be read."""
    try:
        data, _ = read_small(home / STATUS_FILE)
        return msgspec.json.decode(data, type=Status)
    except (OSError, Unreadable, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
