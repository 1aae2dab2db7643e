"""`hermes-trio drain`: hold the gateway of this home, and let it go on.

A held gateway lets what runs come to its end and begins nothing new; messages are kept, and answered when
it goes on. What holds it is a file in its home, so it stays held over a restart too, and for a day at most.
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

HEEDED_WITHIN = 5.0
"""Seconds after which a gateway that watches for requests has seen one, however busy its machine is."""
LOOK_EVERY = 0.1


class NotHeeded(GatewayError):
    def __init__(self) -> None:
        super().__init__(
            "the gateway takes no notice: it runs inside another program, or hangs. The request lies in its "
            "home all the same; `hermes-trio drain cancel` takes it back, `hermes-trio status` says more."
        )


class NotHeld(GatewayError):
    def __init__(self) -> None:
        super().__init__(
            "somebody has let the gateway go on meanwhile. `hermes-trio drain begin --wait` holds it again."
        )


@click.group()
def command() -> None:
    """Begin nothing new and let what runs end, as before work on the machine."""


@command.command()
@click.option("--quiet", is_flag=True, help="Tell no home channel if the gateway ends meanwhile.")
@click.option("--wait", is_flag=True, help="Return when no turn runs any more.")
def begin(quiet: bool, wait: bool) -> None:
    """Begin nothing new from now on."""
    home, world = home_directory(os.environ), World()
    write_drain_request(home, world, principal="hermes-trio drain begin", suppress_notification=quiet)
    gateway = _gateway(home)
    if gateway is None:
        click.echo(
            "No gateway is running. One that starts here begins nothing until `hermes-trio drain cancel`."
        )
        return
    gateway = _heeded(home)
    if gateway is None or gateway.active_turns == 0:
        click.echo("Nothing begins any more, and no turn runs.")
        return
    click.echo(f"Nothing begins any more. {_running(gateway)}", nl=not wait)
    if not wait:
        click.echo("`hermes-trio drain status` says how many are left, `begin --wait` waits for the last.")
        return
    click.echo(" Waiting for the last.")
    while gateway is not None and gateway.active_turns:
        if gateway.gateway_state is not GatewayState.DRAINING:
            raise NotHeld
        time.sleep(LOOK_EVERY)
        gateway = _gateway(home)
    click.echo("No turn runs any more.")


@command.command()
def cancel() -> None:
    """Let the gateway go on, and answer what waits."""
    home = home_directory(os.environ)
    if not consume(home, DRAIN_REQUEST):
        click.echo("Nobody holds the gateway.")
    elif _gateway(home) is None:
        click.echo("Taken back. No gateway is running.")
    else:
        click.echo("Taken back. The gateway goes on with what waits.")


@command.command()
def status() -> None:
    """Say whether the gateway is held, and what still runs."""
    home, world = home_directory(os.environ), World()
    found = read_drain_request(home, world)
    if found.problem is not None:
        click.echo(f"Note: {found.problem}.")
    request, gateway = found.marker, _gateway(home)
    if request is None:
        click.echo("Nobody holds the gateway.")
    else:
        since = datetime.fromtimestamp(to_seconds(request.requested_at, world.time()))
        who = f" by {request.principal}" if request.principal else ""
        quiet = ", and no home channel is told if it ends" if request.suppress_notification else ""
        click.echo(f"Held{who} since {since:%Y-%m-%d %H:%M}{quiet}; after a day it goes on by itself.")
    click.echo(_running(gateway) if gateway is not None else "No gateway is running.")


def _gateway(home: Path) -> Status | None:
    """What the gateway of this home says of itself, if one runs."""
    status = read_status(home) if is_locked(home) else None
    return status if status is not None and is_alive(status.process) else None


def _heeded(home: Path) -> Status | None:
    """What the gateway says when it has seen the request; None if it has ended. Raises `NotHeeded`."""
    until = time.monotonic() + HEEDED_WITHIN
    while (gateway := _gateway(home)) is not None and gateway.gateway_state is not GatewayState.DRAINING:
        if time.monotonic() > until:
            raise NotHeeded
        time.sleep(LOOK_EVERY)
    return gateway


def _running(gateway: Status) -> str:
    turns = gateway.active_turns
    return "1 turn still runs." if turns == 1 else f"{turns or 'No'} turns still run."
