"""`hermes-trio stop`: end the gateway of this home, and wait until it has ended.

How long to wait is read from the running gateway and never guessed to be shorter; and the end is
believed when there is proof of it: the process is gone.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import click

from ...base.errors import GatewayError, HomeError
from ...base.world import World
from ...config.config_file import home_directory, load_config
from ...host.home.home_lock import is_locked, recorded_holder
from ...host.home.markers import write_planned_stop_marker
from ...host.home.state_file import Status, read_status
from ...host.processes.process_identity import ProcessId, is_alive, runs_below
from ...host.processes.signals import ask_to_stop
from ...host.service import systemd

KNOWN_LITTLE = 5.0
"""What the gateway takes beside its grace."""
LATE = 1.0
"""So much later an end may be seen."""
LOOK_EVERY = 0.1


class NotInTime(GatewayError):
    def __init__(self, gateway: ProcessId) -> None:
        super().__init__(
            f"the gateway (pid {gateway.pid}) has not stopped in its time. Look into logs/gateway.log and "
            "logs/gateway-watchdog.log. `hermes-trio stop` hurries it; if it hears of nothing, "
            f"`kill -9 {gateway.pid}` ends it, and the next one takes up what it was at."
        )


class OutOfReach(GatewayError):
    def __init__(self) -> None:
        super().__init__(
            "a gateway works in this home that cannot be seen from here, as in another container. "
            "Call this there."
        )


@click.command()
def command() -> None:
    """Stop the gateway of this home, and wait until it has stopped."""
    home = home_directory(os.environ)
    gateway = running_gateway(home)
    if gateway is None:
        click.echo("No gateway is running.")
        return
    status = status_of(home, gateway)
    again = status is not None and status.deadline is not None and not status.restart_requested
    try:
        write_planned_stop_marker(home, gateway.pid, World(), asked_by="hermes-trio stop")
        announced = True
    except HomeError:  # a full disk, say
        announced = False
    if again or not _stopped_by_systemd(gateway):
        ask_to_stop(gateway.pid, announced=announced)
    if runs_below(gateway):
        click.echo("The gateway stops. This command runs below it, and does not wait for that.")
        return
    if again:
        click.echo("It is stopping already; asked it to hurry.")
    wait_for_end(home, gateway, lambda: not is_alive(gateway))
    click.echo("Stopped.")


def running_gateway(home: Path) -> ProcessId | None:
    """The gateway of this home, if it runs. Raises `OutOfReach`."""
    gateway = recorded_holder(home)
    if gateway is None and is_locked(home):
        raise OutOfReach
    return gateway


def status_of(home: Path, gateway: ProcessId) -> Status | None:
    """What this very gateway says of itself."""
    status = read_status(home)
    return status if status is not None and status.process.names(gateway) else None


def wait_for_end(home: Path, gateway: ProcessId, over: Callable[[], bool]) -> None:
    """Wait until it is over, as long as the gateway itself says that it may take. Raises `NotInTime`."""
    world = World()
    asked, status = world.time(), status_of(home, gateway)
    grace = status.grace if status is not None else None
    if grace is None:  # it has only just begun
        grace = load_config(home, os.environ).config.agent.restart_drain_timeout
    until = asked + grace + KNOWN_LITTLE
    while not over():
        status = status_of(home, gateway)
        if status is not None and status.deadline is not None:
            until = status.deadline
        if world.time() > until + LATE:
            raise NotInTime(gateway)
        time.sleep(LOOK_EVERY)


def _stopped_by_systemd(gateway: ProcessId) -> bool:
    """Have systemd stop a unit that would start the gateway again when that stops by itself."""
    unit = systemd.unit_of(gateway.pid)
    if unit is None or not systemd.restarts_after_exit(unit, gateway.pid, os.environ):
        return False
    answer = systemd.ask_systemctl(unit.scope, "--no-block", "stop", unit.name, environ=os.environ)
    if not answer.ok:
        remedy = f"Stop it with `{systemd.systemctl_command(unit.scope)} stop {unit.name}`."
        raise GatewayError(
            f"{unit.name} starts the gateway again whenever it ends, and systemd refuses to stop it for us "
            f"({answer.text}). {remedy}"
        )
    return True
