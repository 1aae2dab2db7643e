"""The content of the files with which systemd and launchd run the gateway. This module writes no file and
runs no program.

Every number that must agree with the code is in this module or imported by it, so that no timer of a service
manager ends before ours.

Each file carries a seal: a checksum of the rest of the file. A file with a valid seal was written by us, for
some configuration, and may be replaced; a file without one is the work of a person and is left alone.
"""

from __future__ import annotations

import hashlib
import math
import plistlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Literal

from ...base.errors import EXIT_CONFIG, EXIT_RESTART, GatewayError

UNIT = "hermes-trio.service"
LABEL = "ai.hermes-trio.gateway"

LEAST_STOP_TIMEOUT = 90
ROOM_TO_STOP = 30
"""Seconds that a service manager must grant beyond the grace. We need five, and a moment in which the
interpreter ends and a restart is queued."""
START_TIMEOUT = 300
"""Migrating a large store takes minutes."""
WATCHDOG = 60
RESTART_AFTER = 5

Scope = Literal["user", "system"]

_SEAL = re.compile(r"^(?:# |<!-- )hermes-trio (\S+), seal ([0-9a-f]{16})\..*\n", re.MULTILINE)
_PLAIN = re.compile(r"[\w./@:+-]+", re.ASCII)
_HINT = "Written by `hermes-trio service install`, which leaves an edited file alone."


class UnfitForUnit(GatewayError):
    """A path or a name that cannot be written into a service file."""

    def __init__(self, what: str, value: str, problem: str = "characters that are not printed") -> None:
        super().__init__(
            f"{what} {value!r} has {problem}, which the file of a service cannot hold. Rename it."
        )
        self.what, self.value = what, value


@dataclass(frozen=True, slots=True)
class Service:
    """The facts that a service manager needs to run the gateway of a home."""

    program: tuple[str, ...]
    """The command that has the subcommands `run` and `service stopping`, with its full path."""
    home: Path
    path: str
    """The search path for the agent's commands."""
    grace: float
    version: str
    """The version of hermes-trio, noted in the file."""
    user: str | None = None
    """The user of a system service; None for the service of a user."""
    setuid_sandbox: bool = False
    """True if bubblewrap works here only with the rights of its file's owner."""

    @property
    def scope(self) -> Scope:
        return "user" if self.user is None else "system"


class ServiceFileState(Enum):
    """The state of a service file compared with the one we want to write."""

    NOTHING = "nothing is installed"
    SAME = "installed"
    OURS = "installed, and `hermes-trio service install` would change it"
    ANOTHER_HOME = "the service of another home"
    EDITED = "not as `hermes-trio service install` wrote it"


def stop_timeout(grace: float) -> int:
    """Return the seconds that a service manager waits between the stop request and the kill."""
    return max(LEAST_STOP_TIMEOUT, math.ceil(grace) + ROOM_TO_STOP)


def systemd_unit(service: Service) -> str:
    """Return the text of the unit file. Raises `UnfitForUnit`."""
    _refuse_unprintable(service)
    if "$" in service.program[0]:  # systemd does not unescape it there
        raise UnfitForUnit("the program", service.program[0], "a $")
    program = command_text(service.program)
    system = service.scope == "system"
    order = "Wants=network-online.target\nAfter=network-online.target\n" if system else ""
    user = f"User={service.user}\n" if system else ""
    return _sealed(
        f"""\
[Unit]
Description=hermes-trio, a gateway to an AI agent
{order}# It is always started again, however often it failed.
StartLimitIntervalSec=0

[Service]
Type=notify
NotifyAccess=main
# Its listening sockets stay open over a restart, so clients wait and are not refused.
FileDescriptorStoreMax=8
ExecStart={program} run
# A stop by systemd is a planned one: this says so to the gateway, before the signal.
ExecStop=-{program} service stopping
{user}WorkingDirectory=~
Environment={_assignment("HERMES_HOME", str(service.home))}
Environment={_assignment("PATH", service.path)}
Environment=HERMES_SYSTEMD_UNIT=%n HERMES_SYSTEMD_SCOPE={service.scope}
Restart=on-failure
RestartSec={RESTART_AFTER}
RestartForceExitStatus={EXIT_RESTART}
RestartPreventExitStatus={EXIT_CONFIG}
TimeoutStartSec={START_TIMEOUT}
TimeoutStopSec={stop_timeout(service.grace)}
WatchdogSec={WATCHDOG}
# The gateway ends its processes itself, after their turns. What is left when it is gone is killed.
KillMode=mixed
# When a command of the agent eats all memory, that command ends and not the gateway.
OOMPolicy=continue
{_hardening(service)}
[Install]
WantedBy={"multi-user.target" if system else "default.target"}
""",
        service,
        "# {}\n",
        line=0,
    )


_HARDENED = """\
# What neither the gateway nor its commands can do, also those that are granted everything.
NoNewPrivileges=yes
LockPersonality=yes
RestrictRealtime=yes
RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK
SystemCallArchitectures=native
SystemCallErrorNumber=EPERM
SystemCallFilter=~@clock @cpu-emulation @module @obsolete @raw-io @reboot @swap
"""
_HARDENED_SYSTEM = """\
PrivateTmp=yes
PrivateDevices=yes
ProtectClock=yes
ProtectControlGroups=yes
ProtectKernelModules=yes
# Nothing here hides a part of /proc: the kernel would then refuse the sandbox a /proc of its own.
"""
_HARDENED_USER = """\
CapabilityBoundingSet=
ProtectSystem=full
"""


def _hardening(service: Service) -> str:
    """Return the settings that take rights away. The systemd of a user has no right to change what a service
    sees of the machine; a service of root may administer it."""
    if service.setuid_sandbox:  # each of them keeps a program from getting the rights of its file's owner
        return ""
    of_system = _HARDENED_SYSTEM if service.scope == "system" else ""
    return _HARDENED + of_system + (_HARDENED_USER if service.user not in (None, "root") else "")


def launchd_plist(service: Service) -> str:
    """Return the text of the property list. launchd cannot mark a stop as intended: after `hermes-trio stop`
    the exit code is 0, with which launchd does not start the gateway again."""
    _refuse_unprintable(service)
    output = str(service.home / "logs" / "launchd.log")
    of_scope: dict[str, object] = (
        {"LimitLoadToSessionType": ["Aqua", "Background"]}
        if service.scope == "user"
        else {"UserName": service.user}
    )
    text = plistlib.dumps(
        {
            "Label": LABEL,
            "ProgramArguments": [*service.program, "run"],
            "EnvironmentVariables": {"HERMES_HOME": str(service.home), "PATH": service.path},
            "RunAtLoad": True,
            "KeepAlive": {"SuccessfulExit": False},
            "ThrottleInterval": RESTART_AFTER,
            "ExitTimeOut": stop_timeout(service.grace),
            "StandardOutPath": output,
            "StandardErrorPath": output,
            **of_scope,
        }
    )
    return _sealed(text.decode(), service, "<!-- {} -->\n", line=2)


def service_file_state(found: str | None, wanted: str, home: Path) -> ServiceFileState:
    """Compare the text of the existing file, `found`, with the text we want to write."""
    if found is None:
        return ServiceFileState.NOTHING
    if found == wanted:
        return ServiceFileState.SAME
    if version_of(found) is None:
        return ServiceFileState.EDITED
    return ServiceFileState.OURS if home_of(found) == home else ServiceFileState.ANOTHER_HOME


def version_of(text: str) -> str | None:
    """Return the version that wrote this text; None if we did not write it, or it was edited since."""
    found = _SEAL.search(text)
    if found is None or _seal(text[: found.start()] + text[found.end() :]) != found[2]:
        return None
    return found[1]


def home_of(text: str) -> Path | None:
    """Return the home that a file of ours is for."""
    if text.startswith("<?xml"):
        environment = plistlib.loads(text.encode())["EnvironmentVariables"]
        return Path(environment["HERMES_HOME"])
    found = re.search(r'^Environment="HERMES_HOME=(.*)"$', text, re.MULTILINE)
    return Path(_unquoted(found[1])) if found else None


def unit_setting(text: str, key: str) -> str | None:
    """Return the last value of this key in a systemd unit."""
    found = re.findall(rf"^{re.escape(key)}=(.*)$", text, re.MULTILINE)
    return found[-1] if found else None


def command_text(command: Sequence[str]) -> str:
    """Return a command in the syntax of a unit."""
    return " ".join(map(_argument, command))


def _sealed(text: str, service: Service, comment: str, line: int) -> str:
    lines = text.splitlines(keepends=True)
    seal = comment.format(f"hermes-trio {service.version}, seal {_seal(text)}. {_HINT}")
    return "".join([*lines[:line], seal, *lines[line:]])


def _seal(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _refuse_unprintable(service: Service) -> None:
    values = [("the home", str(service.home)), ("PATH", service.path), ("the user", service.user or "")]
    for what, value in [*values, *(("the program", word) for word in service.program)]:
        if not value.isprintable():
            raise UnfitForUnit(what, value)


def _assignment(name: str, value: str) -> str:
    return _quoted(f"{name}={value}")


def _argument(word: str) -> str:
    return word if _PLAIN.fullmatch(word) else _quoted(word).replace("$", "$$")


def _quoted(value: str) -> str:
    escaped = value.replace("%", "%%").replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _unquoted(value: str) -> str:
    return re.sub(r"\\(.)|%(%)", lambda found: found[1] or found[2], value)
