"""`hermes-trio stop`: stop the gateway of this home, and wait until it has stopped.

The running gateway says how long its shutdown may take; this command never waits less. The gateway has
stopped when its process no longer exists.
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

SHUTDOWN_TIME = 5.0
"""Seconds of a shutdown in addition to the grace."""
TOLERANCE = 1.0
"""Seconds by which the end may be seen late."""
POLL_INTERVAL = 0.1


class NotInTime(GatewayError):
    """The gateway did not stop before its deadline."""

    def __init__(self, gateway: ProcessId) -> None:
        super().__init__(
            f"the gateway (pid {gateway.pid}) has not stopped in its time. Read logs/gateway.log and "
            "logs/gateway-watchdog.log. Another `hermes-trio stop` ends the grace; if the gateway does not "
            f"react, run `kill -9 {gateway.pid}`: the next start resumes its work."
        )


class OutOfReach(GatewayError):
    """The gateway cannot be signalled from here."""

    def __init__(self) -> None:
        super().__init__(
            "a gateway works in this home that cannot be seen from here, as in another container. "
            "Run this command there."
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
    except HomeError:  # for example a full disk
        announced = False
    if again or not _stopped_by_systemd(gateway):
        ask_to_stop(gateway.pid, announced=announced)
    if runs_below(gateway):
        click.echo("The gateway stops. This command is its child process, and does not wait.")
        return
    if again:
        click.echo("The gateway is already stopping; its grace is ended.")
    wait_for_end(home, gateway, lambda: not is_alive(gateway))
    click.echo("Stopped.")


def running_gateway(home: Path) -> ProcessId | None:
    """Return the gateway of this home, or None if none runs. Raise `OutOfReach`."""
    gateway = recorded_holder(home)
    if gateway is None and is_locked(home):
        raise OutOfReach
    return gateway


def status_of(home: Path, gateway: ProcessId) -> Status | None:
    """Return the state that this process wrote, or None if the state is that of another process."""
    status = read_status(home)
    return status if status is not None and status.process.names(gateway) else None


def wait_for_end(home: Path, gateway: ProcessId, over: Callable[[], bool]) -> None:
    """Wait until `over` returns True, at most until the deadline of the gateway. Raise `NotInTime`."""
    world = World()
    asked, status = world.time(), status_of(home, gateway)
    grace = status.grace if status is not None else None
    if grace is None:  # the gateway is just starting
        grace = load_config(home, os.environ).config.agent.restart_drain_timeout
    deadline = asked + grace + SHUTDOWN_TIME
    while not over():
        status = status_of(home, gateway)
        if status is not None and status.deadline is not None:
            deadline = status.deadline
        if world.time() > deadline + TOLERANCE:
            raise NotInTime(gateway)
        time.sleep(POLL_INTERVAL)


def _stopped_by_systemd(gateway: ProcessId) -> bool:
    """Let systemd stop the unit if the unit would start the gateway again after its exit. Return False if
    there is no such unit."""
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
