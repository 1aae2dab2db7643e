"""The files of launchd, and the commands that a person gives it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from .service_files import LABEL, Scope


def plist_file(scope: Scope) -> Path:
    """Return the path of our property list, whether it exists or not."""
    folder = "/Library/LaunchDaemons" if scope == "system" else "~/Library/LaunchAgents"
    return Path(folder).expanduser() / f"{LABEL}.plist"


def next_steps(scope: Scope, *, again: bool) -> list[str]:
    """Return the commands for a person after our property list was written; `again` if it replaced one."""
    sudo = "sudo " if scope == "system" else ""
    domain, file = _domain(scope), plist_file(scope)
    bootstrap = f"{sudo}launchctl bootstrap {domain} '{file}'"
    # launchctl fails to unload a service that was never loaded.
    return [f"{sudo}launchctl bootout {domain}/{LABEL}", bootstrap] if again else [bootstrap]


def disable(scope: Scope) -> None:
    """Stop and unload our service, if it is loaded."""
    command = ["launchctl", "bootout", f"{_domain(scope)}/{LABEL}"]
    subprocess.run(command, capture_output=True, check=False)  # noqa: S603 - a fixed command


def _domain(scope: Scope) -> str:
    return "system" if scope == "system" else f"gui/{os.getuid()}"
