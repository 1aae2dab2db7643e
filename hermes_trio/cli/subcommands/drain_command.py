"""`hermes-trio drain`: begin and end a drain of the gateway of this home.

A drained gateway begins no new turns and lets running ones end. Messages are kept, and answered after the
drain. The drain is a file in the home: it continues after a restart, and ends after a day at the latest.
"""

from __future__ import annotations

import os
import time
from datetime import datetime
from pathlib import Path

import click

from ...base.errors import GatewayError
from ...base.world import World
from ...config.config_file import home_directory
from ...host.home.home_lock import is_locked
from ...host.home.markers import DRAIN_REQUEST, consume, read_drain_request, to_seconds, write_drain_request
from ...host.home.state_file import GatewayState, Status, read_status
from ...host.processes.process_identity import is_alive

DRAIN_TIMEOUT = 5.0
"""Seconds after which a gateway that watches for drain requests has seen one, also on a busy machine."""
POLL_INTERVAL = 0.1


class DrainIgnored(GatewayError):
    """The gateway does not react to the drain request."""

    def __init__(self) -> None:
        super().__init__(
            "the gateway does not react: it runs inside another program, or hangs. The request stays in its "
            "home; `hermes-trio drain cancel` removes it, and `hermes-trio status` prints the state."
        )


class DrainCancelled(GatewayError):
    """The drain was cancelled while this command waited."""

    def __init__(self) -> None:
        super().__init__(
            "the drain was cancelled meanwhile. `hermes-trio drain begin --wait` begins another one."
        )


@click.group()
def command() -> None:
    """Begin no new turns, and let running ones end, for example before maintenance."""


@command.command()
@click.option("--quiet", is_flag=True, help="Tell no home channel if the gateway ends during the drain.")
@click.option("--wait", is_flag=True, help="Return when no turn runs any more.")
def begin(quiet: bool, wait: bool) -> None:
    """Begin no new turns from now on."""
    home, world = home_directory(os.environ), World()
    write_drain_request(home, world, principal="hermes-trio drain begin", suppress_notification=quiet)
    gateway = _gateway(home)
    if gateway is None:
        click.echo("No gateway is running. The next one begins no turns until `hermes-trio drain cancel`.")
        return
    gateway = _wait_for_drain(home)
    if gateway is None or gateway.active_turns == 0:
        click.echo("No new turns begin, and no turn runs.")
        return
    click.echo(f"No new turns begin. {_running(gateway)}", nl=not wait)
    if not wait:
        click.echo("`hermes-trio drain status` prints how many are left, `begin --wait` waits for the last.")
        return
    click.echo(" Waiting for the last.")
    while gateway is not None and gateway.active_turns:
        if gateway.gateway_state is not GatewayState.DRAINING:
            raise DrainCancelled
        time.sleep(POLL_INTERVAL)
        gateway = _gateway(home)
    click.echo("No turn runs any more.")


@command.command()
def cancel() -> None:
    """End the drain, and answer the waiting messages."""
    home = home_directory(os.environ)
    if not consume(home, DRAIN_REQUEST):
        click.echo("There is no drain.")
    elif _gateway(home) is None:
        click.echo("The drain is cancelled. No gateway is running.")
    else:
        click.echo("The drain is cancelled. The gateway answers the waiting messages.")


@command.command()
def status() -> None:
    """Print whether there is a drain, and how many turns still run."""
    home, world = home_directory(os.environ), World()
    found = read_drain_request(home, world)
    if found.problem is not None:
        click.echo(f"Note: {found.problem}.")
    request, gateway = found.marker, _gateway(home)
    if request is None:
        click.echo("There is no drain.")
    else:
        since = datetime.fromtimestamp(to_seconds(request.requested_at, world.time()))
        requester = f" by {request.principal}" if request.principal else ""
        quiet = ", and no home channel is told if the gateway ends" if request.suppress_notification else ""
        click.echo(f"Drained{requester} since {since:%Y-%m-%d %H:%M}{quiet}; the drain ends after a day.")
    click.echo(_running(gateway) if gateway is not None else "No gateway is running.")


def _gateway(home: Path) -> Status | None:
    """Return the state of the gateway of this home, or None if none runs."""
    status = read_status(home) if is_locked(home) else None
    return status if status is not None and is_alive(status.process) else None


def _wait_for_drain(home: Path) -> Status | None:
    """Wait until the gateway is drained, and return its state; None if it has ended. Raise `DrainIgnored`."""
    deadline = time.monotonic() + DRAIN_TIMEOUT
    while (gateway := _gateway(home)) is not None and gateway.gateway_state is not GatewayState.DRAINING:
        if time.monotonic() > deadline:
            raise DrainIgnored
        time.sleep(POLL_INTERVAL)
    return gateway


def _running(gateway: Status) -> str:
    turns = gateway.active_turns
    return "1 turn still runs." if turns == 1 else f"{turns or 'No'} turns still run."
