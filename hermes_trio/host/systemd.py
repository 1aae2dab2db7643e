"""What is asked of systemd: that it starts our unit again."""

from __future__ import annotations

import logging
import shutil
import subprocess
from collections.abc import Mapping

import structlog

ANSWER_WITHIN = 10.0

log = structlog.wrap_logger(logging.getLogger(__name__))


def queue_restart(environ: Mapping[str, str]) -> bool:
    """Queue the restart of our own unit and return without waiting for it. False if it was not queued:
    then our exit code has to ask for it. Our units say their name and whose they are."""
    unit = environ.get("HERMES_SYSTEMD_UNIT")
    systemctl = shutil.which("systemctl", path=environ.get("PATH"))
    if not unit or not systemctl:
        return False
    whose = ["--user"] if environ.get("HERMES_SYSTEMD_SCOPE") == "user" else []
    command = [systemctl, *whose, "--no-block", "restart", unit]
    try:
        done = subprocess.run(  # noqa: S603 - a fixed command, and the name our own unit file gives
            command, env=dict(environ), capture_output=True, timeout=ANSWER_WITHIN, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        log.error("systemctl did not answer", error=str(error))
        return False
    if done.returncode:
        log.error("systemctl refused", said=done.stderr.decode(errors="replace").strip())
    return done.returncode == 0
