"""An environment of its own for each program that is compared, made when it is first needed.

They lie in the directory for caches of the account; `HERMES_BENCH_CACHE` names another one.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from .subject import Unavailable

LONGEST = 1200.0


def python_environment(name: str, *packages: str) -> Path:
    """Return the directory of programs of an environment with these packages."""
    place = cached(name)
    programs = place / "bin"
    if not (place / "made").exists():
        run_command(sys.executable, "-m", "venv", str(place))
        run_command(str(programs / "python"), "-m", "pip", "install", "--quiet", *packages)
        (place / "made").touch()
    return programs


def node_environment(name: str, *packages: str) -> Path:
    """Return the directory of programs of an environment with these packages, and with a Node of its own if
    `node` is one of them."""
    place = cached(name)
    if not (place / "made").exists():
        place.mkdir(parents=True, exist_ok=True)
        options = ("--no-audit", "--no-fund", "--silent", "--force", "--prefix", str(place))
        for package in packages:
            run_command("npm", "install", *options, package)
        (place / "made").touch()
    return place / "node_modules" / ".bin"


def cached(name: str) -> Path:
    """Return a path in the cache."""
    named = os.environ.get("HERMES_BENCH_CACHE")
    place = Path(named) if named else Path("~/.cache/hermes-trio-bench").expanduser()
    place.mkdir(parents=True, exist_ok=True)
    return place / name


def run_command(*command: str) -> None:
    """Run a command that makes something. Raises `Unavailable` if it fails."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=LONGEST)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Unavailable(f"{command[0]}: {error}") from error
    if done.returncode:
        raise Unavailable(f"{' '.join(command)}: {done.stderr.strip()[-500:]}")
