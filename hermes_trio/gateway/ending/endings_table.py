"""The endings of a gateway: one value, decided once, and one table with all consequences. Pure values;
nothing here waits or stores.

| ending | announced | resume reason | state left | exit |
|---|---|---|---|---|
| planned stop | shutting down | shutdown_timeout | stopped | 0 |
| signal without a marker | shutting down | shutdown_timeout | running | 1 |
| restart under systemd | restarting | restart_timeout | stopped | 0, and 75 if it could not be queued |
| restart under another supervisor | restarting | restart_timeout | stopped | 75 |
| restart, no supervisor | restarting | restart_timeout | stopped | re-exec in place |
| handed over | nobody | restart_timeout | running | 0; or none, if the successor failed |
| database replaced | shutting down | crash, found at the next start | running | 1 |
| taken over | nobody | crash, stored by the other gateway | running | 1 |
| nothing can serve | shutting down | shutdown_timeout | startup_failed | 78 |
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Literal

from ...base.errors import EXIT_RESTART
from ...base.messages import MessageEvent
from ...host.home.state_file import Afterwards
from ...state.tables.session_entry import ResumeReason

GATEWAY_SERVICE_RESTART_EXIT_CODE = EXIT_RESTART

LAST_WORDS = 2.0
"""Seconds in which a turn or process that was cut writes its last record."""
MARGIN = 5.0
"""Seconds after the grace at which the process is gone, whatever hangs."""


class Cause(StrEnum):
    """The cause of an ending."""

    PLANNED = "planned"
    SIGNAL = "signal"
    """A signal without a marker file: the machine shuts down, or a foreign supervisor stops us."""
    RESTART = "restart"
    HANDED_OVER = "handed over"
    """A successor is ready in another process, and takes over the home and the listening sockets."""
    STORE_REPLACED = "database replaced"
    """The database files were removed or replaced: nothing can be stored any more."""
    LIFE_OVER = "taken over"
    """Nothing could be stored for too long, or another gateway has taken over: the work has ended already."""
    NOTHING_SERVES = "nothing can serve"
    """Every platform has refused our credentials."""


@dataclass(frozen=True, slots=True)
class Ending:
    """A decision that the gateway ends: its cause, its requester, and how long turns may go on."""

    cause: Cause
    grace: float
    asked_by: str = ""
    requester: MessageEvent | None = None
    """The message that requested it, if it came from a chat."""

    @property
    def kind(self) -> Literal["stop", "restart"]:
        return "restart" if self.cause in (Cause.RESTART, Cause.HANDED_OVER) else "stop"


def combined(first: Ending | None, then: Ending) -> Ending:
    """Return the ending that applies after a second request: the first one, except that a stop turns a
    restart into a stop. A grace that runs is not prolonged."""
    if first is None:
        return then
    if first.kind == "restart" and then.kind == "stop":
        return replace(then, grace=min(first.grace, then.grace))
    return first


class Supervisor(StrEnum):
    """The program that starts the gateway again after its end."""

    SYSTEMD = "systemd"
    OTHER = "other"
    NONE = "none"
    HOST = "host"
    """The program in which this gateway is embedded; it may start it again or not."""


def supervisor(environ: Mapping[str, str], *, in_container: bool = False) -> Supervisor:
    """Return the supervisor of this process, according to its environment."""
    # A desktop terminal may be a service itself, and processes started in it inherit its environment.
    if environ.get("INVOCATION_ID") and environ.get("SYSTEMD_EXEC_PID") in (None, str(os.getpid())):
        return Supervisor.SYSTEMD
    label = environ.get("XPC_SERVICE_NAME", "0")
    launchd = label != "0" and not label.startswith("application.")
    told = environ.get("HERMES_S6_SUPERVISED_CHILD") or environ.get("HERMES_GATEWAY_EXTERNAL_SUPERVISOR")
    return Supervisor.OTHER if launchd or told or in_container else Supervisor.NONE


class Exit(StrEnum):
    """The way in which the process exits."""

    OK = "ok"
    FAILURE = "failure"
    QUEUE_UNIT = "queue the restart of our unit"
    TEMPFAIL = "temporary failure"
    EXEC = "run in place"
    HAND_OVER = "the successor runs"
    CONFIG = "a mistake in the configuration"


@dataclass(frozen=True, slots=True)
class Consequences:
    """The consequences of an ending: one row of the table."""

    told: str
    resume_reason: ResumeReason
    state_left: Afterwards
    exit: Exit


def consequences(ending: Ending, supervised_by: Supervisor) -> Consequences:
    """Return the row of the table for this ending."""
    if ending.cause is Cause.HANDED_OVER:
        return Consequences(NOBODY, ResumeReason.RESTART, "running", Exit.HAND_OVER)
    if ending.kind == "restart":
        way = {
            Supervisor.SYSTEMD: Exit.QUEUE_UNIT,
            Supervisor.OTHER: Exit.TEMPFAIL,
            Supervisor.NONE: Exit.EXEC,
            Supervisor.HOST: Exit.OK,
        }[supervised_by]
        return Consequences(RESTARTING, ResumeReason.RESTART, "stopped", way)
    if ending.cause in (Cause.SIGNAL, Cause.STORE_REPLACED, Cause.LIFE_OVER):
        return Consequences(SHUTTING_DOWN, ResumeReason.SHUTDOWN, "running", Exit.FAILURE)
    if ending.cause is Cause.NOTHING_SERVES:
        return Consequences(SHUTTING_DOWN, ResumeReason.SHUTDOWN, "startup_failed", Exit.CONFIG)
    return Consequences(SHUTTING_DOWN, ResumeReason.SHUTDOWN, "stopped", Exit.OK)


NOBODY = ""
"""Chats and people are not told."""
SHUTTING_DOWN = "⚠ Gateway shutting down. What is running now will be interrupted."
RESTARTING = (
    "⚠ Gateway restarting. What is running now will be interrupted; "
    "send any message afterwards and it will try to resume."
)
