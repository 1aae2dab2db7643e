"""What is asked of systemd, and where its files are."""

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
    """What systemctl said, be it why it refused."""

    ok: bool
    text: str


@dataclass(frozen=True, slots=True)
class Unit:
    """A service that a process belongs to."""

    name: str
    scope: Scope


def unit_file(scope: Scope, environ: Mapping[str, str]) -> Path:
    """Where our unit is, or would be."""
    if scope == "system":
        return SYSTEM_UNITS / UNIT
    config = environ.get("XDG_CONFIG_HOME") or Path("~/.config").expanduser()
    return Path(config, "systemd", "user", UNIT)


def called(scope: Scope) -> str:
    """How a person calls systemctl."""
    return "systemctl --user" if scope == "user" else "sudo systemctl"


def next_steps(scope: Scope) -> list[str]:
    """What a person does after our unit was written, so that it runs now and always."""
    steps = [f"{called(scope)} daemon-reload", f"{called(scope)} enable --now {UNIT}"]
    # Without it the services of a user end when the user logs out.
    return steps if scope == "system" else [*steps, "loginctl enable-linger"]


def answers(scope: Scope, environ: Mapping[str, str]) -> bool:
    """Whether there is a systemd of this scope that we can talk to."""
    return ask(scope, "show-environment", environ=environ).ok


def disable(scope: Scope, environ: Mapping[str, str]) -> SystemctlAnswer:
    """Stop our unit, however long it may take, and have it started no more."""
    return ask(scope, "disable", "--now", UNIT, environ=environ, within=None)


def unit_of(pid: int) -> Unit | None:
    """The service that this process belongs to."""
    try:
        return unit_in(Path(f"/proc/{pid}/cgroup").read_text("utf-8", "replace"))
    except OSError:  # not Linux; gone
        return None


def unit_in(cgroups: str) -> Unit | None:
    """The innermost service among the control groups of a process."""
    for line in cgroups.splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers in ("", "name=systemd"):
            names = [name for name in path.split("/") if name.endswith(".service")]
            inner = [name for name in names if not name.startswith("user@")]
            if inner:
                return Unit(inner[-1], "system" if inner == names else "user")
    return None


def comes_back(unit: Unit, pid: int, environ: Mapping[str, str]) -> bool:
    """Whether systemd starts the main process of this unit again although it was meant to end. Ours are
    not like that; and a process below another service is none of that service's concern."""

    def shown(key: str) -> str:
        return ask(unit.scope, "show", "--value", "-p", key, unit.name, environ=environ).text

    return shown("MainPID") == str(pid) and shown("Restart") in ("always", "on-success")


def is_restarting(environ: Mapping[str, str]) -> bool:
    """Asked by what systemd runs to stop our unit: whether it will start it again at once."""
    unit = _own(environ)
    if unit is None:
        return False
    jobs = ask(unit.scope, "list-jobs", "--no-legend", "--plain", unit.name, environ=environ)
    listed = [job.split()[1:3] for job in jobs.text.splitlines()] if jobs.ok else []
    return [unit.name, "restart"] in listed


def queue_restart(environ: Mapping[str, str]) -> SystemctlAnswer:
    """Queue the restart of our own unit and return without waiting for it. If it was not queued, our exit
    code has to ask for it. Our units say their name and whose they are."""
    unit = _own(environ)
    if unit is None:
        return SystemctlAnswer(False, "this unit is not ours")
    return ask(unit.scope, "--no-block", "restart", unit.name, environ=environ)


def ask(
    scope: Scope, *arguments: str, environ: Mapping[str, str], within: float | None = ANSWER_WITHIN
) -> SystemctlAnswer:
    """Ask systemctl. Not to be there is an answer too."""
    program = shutil.which("systemctl", path=environ.get("PATH"))
    if program is None:
        return SystemctlAnswer(False, "there is no systemctl")
    whose = ["--user"] if scope == "user" else []
    try:
        done = subprocess.run(  # noqa: S603 - fixed commands, and names that units have
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


def _own(environ: Mapping[str, str]) -> Unit | None:
    name = environ.get("HERMES_SYSTEMD_UNIT")
    return Unit(name, "user" if environ.get("HERMES_SYSTEMD_SCOPE") == "user" else "system") if name else None
