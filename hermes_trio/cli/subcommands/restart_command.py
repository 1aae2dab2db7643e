"""`hermes-trio restart`: have the gateway of this home end and come back, and wait for both.

That it is back is believed when the next life says so in the state file: it has another instance, it
lives, and its doors are open. (Where nobody watches over it, it is the same process, run in place.)
"""

from __future__ import annotations

import os
import time
from pathlib import Path

import click

from ...base.errors import GatewayError
from ...base.world import World
from ...config.config_file import home_directory
from ...host.home.markers import write_planned_stop_marker
from ...host.home.state_file import GatewayState, Status, read_status
from ...host.processes.process_identity import ProcessId, is_alive, runs_below
from ...host.processes.signals import ask_to_restart
from ...host.service.service_files import START_TIMEOUT
from .stop_command import LOOK_EVERY, running_gateway, status_of, wait_for_end

BACK_WITHIN = 30.0
"""So long nothing need be seen of the next life: supervisors pause."""
LOST = (GatewayState.STOPPED, GatewayState.STARTUP_FAILED)


class NotBack(GatewayError):
    def __init__(self, what: str) -> None:
        super().__init__(
            f"{what}. Look into logs/gateway.log, run `hermes-trio doctor`, and start it with "
            "`hermes-trio run` or the way it is started here."
        )


@click.command()
def command() -> None:
    """Restart the gateway of this home, and wait until it is back."""
    home = home_directory(os.environ)
    gateway = running_gateway(home)
    if gateway is None:
        raise NotBack("no gateway is running, so there is none to restart")
    status = status_of(home, gateway)
    instance = status.instance if status else ""
    if not ask_to_restart(gateway.pid):
        write_planned_stop_marker(home, gateway.pid, World(), kind="restart", asked_by="hermes-trio restart")
    if runs_below(gateway):
        click.echo("The gateway restarts. This command runs below it, and does not wait for that.")
        return

    wait_for_end(home, gateway, lambda: _is_over(read_status(home), gateway, instance))
    status = _back(home, instance)
    click.echo(f"Restarted: {status.gateway_state}, pid {status.pid}.")


def _is_over(status: Status | None, gateway: ProcessId, instance: str) -> bool:
    if not is_alive(gateway):
        return True
    return status is not None and (status.instance != instance or status.gateway_state in LOST)


def _back(home: Path, instance: str) -> Status:
    """The next life, when its doors are open. Raises `NotBack`."""
    began = time.monotonic()
    while True:
        status = read_status(home)
        if status is None:
            raise NotBack("the state file cannot be read")
        another = status.instance != instance
        if not another and not status.restart_requested:
            raise NotBack("it has stopped, because somebody asked for that meanwhile")
        if another and (status.gateway_state in LOST or status.error):
            why = (status.error or status.exit_reason or status.gateway_state).removesuffix(".")
            raise NotBack(f"it came back and ended again ({why})")
        lives = another and is_alive(status.process)
        if lives and status.gateway_state is not GatewayState.STARTING:
            return status
        if time.monotonic() - began > (START_TIMEOUT if lives else BACK_WITHIN):
            raise NotBack("it does not get ready" if lives else "it has ended, and has not come back")
        time.sleep(LOOK_EVERY)
