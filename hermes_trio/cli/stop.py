"""`hermes-trio stop`: end the gateway of this home, and wait until it has ended.

How long to wait is read from the running gateway and never guessed to be shorter; and the end is
believed when there is proof of it: the process is gone.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

import click

from ..config_file import home_directory, load_config
from ..host.home import recorded_holder
from ..host.markers import write_planned_stop_marker
from ..host.process import ProcessId, is_alive
from ..host.signals import ask_to_stop
from ..host.status import read_status
from ..world import World

KNOWN_LITTLE = 5.0
LOOK_EVERY = 0.1


@click.command()
def command() -> None:
    """Stop the gateway of this home, and wait until it has stopped."""
    home = home_directory(os.environ)
    gateway = recorded_holder(home)
    if gateway is None or not is_alive(gateway):
        click.echo("No gateway is running.")
        return
    grace = load_config(home, os.environ).config.agent.restart_drain_timeout
    write_planned_stop_marker(home, gateway.pid, World(), asked_by="hermes-trio stop")
    ask_to_stop(gateway.pid)
    if not _gone(home, gateway, grace):
        click.echo(
            f"error: the gateway (pid {gateway.pid}) has not stopped in its time. "
            "Look into logs/gateway.log; ask again to hurry it.",
            err=True,
        )
        raise SystemExit(1)
    click.echo("Stopped.")


def _gone(home: Path, gateway: ProcessId, grace: float) -> bool:
    """Wait for the end, as long as the gateway itself says it may take."""
    until = time.time() + grace + KNOWN_LITTLE
    while is_alive(gateway):
        status = read_status(home)
        if status is not None and status.process == gateway and status.deadline is not None:
            until = max(until, status.deadline)
        if time.time() > until + 1:
            return False
        time.sleep(LOOK_EVERY)
    return True
