"""Questions to systemd, and the paths of its files."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from .service_files import UNIT, Scope

ANSWER_WITHIN = 10.0
SYSTEM_UNITS = Path("/etc/systemd/system")
LINGERING = Path("/var/lib/systemd/linger")


@dataclass(frozen=True, slots=True)
class SystemctlAnswer:
    """The output of systemctl, or its error message."""

    ok: bool
    text: str


@dataclass(frozen=True, slots=True)
class Unit:
    """A service to which a process belongs."""

    name: str
    scope: Scope


def unit_file(scope: Scope, environ: Mapping[str, str]) -> Path:
    """Return the path of our unit, whether it exists or not."""
    if scope == "system":
        return SYSTEM_UNITS / UNIT
    config = environ.get("XDG_CONFIG_HOME") or Path("~/.config").expanduser()
    return Path(config, "systemd", "user", UNIT)


def systemctl_command(scope: Scope) -> str:
    """Return the command with which a person runs systemctl."""
    return "systemctl --user" if scope == "user" else "sudo systemctl"


def next_steps(scope: Scope) -> list[str]:
    """Return the commands for a person after our unit was written: the gateway runs now and after each
    boot."""
    steps = [f"{systemctl_command(scope)} daemon-reload", f"{systemctl_command(scope)} enable --now {UNIT}"]
    # Without lingering, the services of a user end when the user logs out.
    return steps if scope == "system" else [*steps, "loginctl enable-linger"]


def is_reachable(scope: Scope, environ: Mapping[str, str]) -> bool:
    """Return True if systemd of this scope answers."""
    return ask_systemctl(scope, "show-environment", environ=environ).ok


def disable(scope: Scope, environ: Mapping[str, str]) -> SystemctlAnswer:
    """Stop our unit, however long that takes, and do not start it at the next boot."""
    return ask_systemctl(scope, "disable", "--now", UNIT, environ=environ, within=None)


def unit_of(pid: int) -> Unit | None:
    """Return the service to which this process belongs; None if there is none."""
    try:
        return unit_in(Path(f"/proc/{pid}/cgroup").read_text("utf-8", "replace"))
    except OSError:  # not Linux; gone
        return None


def unit_in(cgroups: str) -> Unit | None:
    """Return the innermost service among the control groups of a process."""
    for line in cgroups.splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers in ("", "name=systemd"):
            names = [name for name in path.split("/") if name.endswith(".service")]
            inner = [name for name in names if not name.startswith("user@")]
            if inner:
                return Unit(inner[-1], "system" if inner == names else "user")
    return None


def restarts_after_exit(unit: Unit, pid: int, environ: Mapping[str, str]) -> bool:
    """Return True if systemd restarts the main process of this unit even after an intended end. Our own units
    do not; and systemd restarts no process that is not the main process of its service."""

    def shown(key: str) -> str:
        return ask_systemctl(unit.scope, "show", "--value", "-p", key, unit.name, environ=environ).text

    return shown("MainPID") == str(pid) and shown("Restart") in ("always", "on-success")


def is_restarting(environ: Mapping[str, str]) -> bool:
    """Return True if systemd will start our unit again at once. For the command that it runs to stop the
    unit."""
    unit = _own_unit(environ)
    if unit is None:
        return False
    jobs = ask_systemctl(unit.scope, "list-jobs", "--no-legend", "--plain", unit.name, environ=environ)
    listed = [job.split()[1:3] for job in jobs.text.splitlines()] if jobs.ok else []
    return [unit.name, "restart"] in listed


def queue_restart(environ: Mapping[str, str]) -> SystemctlAnswer:
    """Queue the restart of our own unit and return without waiting for it. If it was not queued, our exit
    code has to request it. Our units pass their name and scope in the environment."""
    unit = _own_unit(environ)
    if unit is None:
        return SystemctlAnswer(False, "this unit is not ours")
    return ask_systemctl(unit.scope, "--no-block", "restart", unit.name, environ=environ)


def ask_systemctl(
    scope: Scope, *arguments: str, environ: Mapping[str, str], within: float | None = ANSWER_WITHIN
) -> SystemctlAnswer:
    """Run systemctl and return its answer; a missing systemctl is an answer too."""
    program = shutil.which("systemctl", path=environ.get("PATH"))
    if program is None:
        return SystemctlAnswer(False, "there is no systemctl")
    whose = ["--user"] if scope == "user" else []
    try:
        done = subprocess.run(  # noqa: S603 - fixed commands, and names of units
            [program, *whose, *arguments],
            env=dict(environ),
            capture_output=True,
            text=True,
            errors="replace",
            timeout=within,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return SystemctlAnswer(False, str(error))
    return SystemctlAnswer(done.returncode == 0, (done.stderr if done.returncode else done.stdout).strip())


def _own_unit(environ: Mapping[str, str]) -> Unit | None:
    name = environ.get("HERMES_SYSTEMD_UNIT")
    return Unit(name, "user" if environ.get("HERMES_SYSTEMD_SCOPE") == "user" else "system") if name else None
