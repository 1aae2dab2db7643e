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
    place = _cache() / name
    programs = place / "bin"
    if not (place / "made").exists():
        _run(sys.executable, "-m", "venv", str(place))
        _run(str(programs / "python"), "-m", "pip", "install", "--quiet", *packages)
        (place / "made").touch()
    return programs


def node_environment(name: str, *packages: str) -> Path:
    """Return the directory of programs of an environment with these packages, and with a Node of its own if
    `node` is one of them."""
    place = _cache() / name
    if not (place / "made").exists():
        place.mkdir(parents=True, exist_ok=True)
        options = ("--no-audit", "--no-fund", "--silent", "--force", "--prefix", str(place))
        for package in packages:
            _run("npm", "install", *options, package)
        (place / "made").touch()
    return place / "node_modules" / ".bin"


def _cache() -> Path:
    named = os.environ.get("HERMES_BENCH_CACHE")
    return Path(named) if named else Path("~/.cache/hermes-trio-bench").expanduser()


def _run(*command: str) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=LONGEST)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Unavailable(f"{command[0]}: {error}") from error
    if done.returncode:
        raise Unavailable(f"{' '.join(command)}: {done.stderr.strip()[-500:]}")
