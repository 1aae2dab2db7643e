"""Where the files of launchd are, and what a person tells it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from .service_files import LABEL, Scope


def plist_file(scope: Scope) -> Path:
    """Where our property list is, or would be."""
    folder = "/Library/LaunchDaemons" if scope == "system" else "~/Library/LaunchAgents"
    return Path(folder).expanduser() / f"{LABEL}.plist"


def next_steps(scope: Scope, *, again: bool) -> list[str]:
    """What a person does after our property list was written; `again`, if there was one before."""
    sudo = "sudo " if scope == "system" else ""
    domain, file = _domain(scope), plist_file(scope)
    bootstrap = f"{sudo}launchctl bootstrap {domain} '{file}'"
    # What was never loaded cannot be unloaded: launchctl would complain.
    return [f"{sudo}launchctl bootout {domain}/{LABEL}", bootstrap] if again else [bootstrap]


def disable(scope: Scope) -> None:
    """Stop our service, if it is loaded, and unload it."""
    command = ["launchctl", "bootout", f"{_domain(scope)}/{LABEL}"]
    subprocess.run(command, capture_output=True, check=False)  # noqa: S603 - a fixed command


def _domain(scope: Scope) -> str:
    return "system" if scope == "system" else f"gui/{os.getuid()}"
