"""`hermes-trio restart`: restart the gateway of this home, and wait until it is back.

It is back when the state file names another instance whose process is alive and which is ready. (Without a
supervisor the same process starts again in place.)
"""

from __future__ import annotations

import os
import time
from dataclasses import asdict
from pathlib import Path

import click

from ...base.errors import GatewayError
from ...base.plural import counted
from ...base.world import World
from ...config.config_file import home_directory
from ...gateway.operations.gateway_actions import LiveTerms
from ...host.home.markers import write_planned_stop_marker
from ...host.home.state_file import GatewayState, Status, read_status
from ...host.processes.process_identity import ProcessId, find, is_alive, runs_below
from ...host.processes.signals import ask_to_restart
from ...host.service.service_files import START_TIMEOUT
from ...host.service.successor import READY_WITHIN, SuccessorFailed
from ..gateway_request import TIMEOUT, ask_gateway
from .stop_command import POLL_INTERVAL, running_gateway, status_of, wait_for_end

SUPERVISOR_PAUSE = 30.0
"""Seconds within which the next life must begin. Supervisors pause between two starts."""
ENDED = (GatewayState.STOPPED, GatewayState.STARTUP_FAILED)


class NotBack(GatewayError):
    """The gateway did not come back."""

    def __init__(self, problem: str) -> None:
        super().__init__(
            f"{problem}. Read logs/gateway.log, run `hermes-trio doctor`, and start the gateway with "
            "`hermes-trio run` or with its supervisor."
        )


@click.command()
@click.option(
    "--live", is_flag=True, help="Let another process take over: no turn is cut, no client refused."
)
@click.option(
    "--wait",
    type=click.FloatRange(min=0),
    default=60.0,
    show_default=True,
    help="With --live: seconds to wait for a moment without a running turn. Then the grace begins.",
)
@click.option(
    "--grace",
    type=click.FloatRange(min=0),
    help="With --live: seconds that turns may still continue then. Default: agent.restart_drain_timeout.",
)
@click.option(
    "--ready-within",
    type=click.FloatRange(min=0, max=3600),
    default=READY_WITHIN,
    show_default=True,
    help="With --live: seconds for the start of the other process.",
)
def command(live: bool, wait: float, grace: float | None, ready_within: float) -> None:
    """Restart the gateway of this home, and wait until it is back."""
    home = home_directory(os.environ)
    gateway = running_gateway(home)
    if gateway is None:
        raise NotBack("no gateway is running, so there is none to restart")
    if live:
        _restart_live(home, gateway, LiveTerms(wait, grace, ready_within))
        return
    status = status_of(home, gateway)
    instance = status.instance if status else ""
    if not ask_to_restart(gateway.pid):
        write_planned_stop_marker(home, gateway.pid, World(), kind="restart", asked_by="hermes-trio restart")
    if runs_below(gateway):
        click.echo("The gateway restarts. This command is its child process, and does not wait.")
        return

    wait_for_end(home, gateway, lambda: _is_over(read_status(home), gateway, instance))
    status = _back(home, instance)
    click.echo(f"Restarted: {status.gateway_state}, pid {status.pid}.")


def _restart_live(home: Path, gateway: ProcessId, terms: LiveTerms) -> None:
    """Request the live restart, and wait until the successor serves. Raise `NotAnswered`,
    `SuccessorFailed` or `NotBack`."""
    body = {"live": True, **asdict(terms)}
    asked = ask_gateway("POST", "/api/admin/restart", body, timeout=terms.ready_within + TIMEOUT)
    successor, running = find(asked["successor"]), asked["active_agents"]
    if successor is None:
        raise SuccessorFailed("it ended when it was ready")
    click.echo(f"The successor is ready, pid {successor.pid}. {counted(running, 'running turn')}.")
    if runs_below(gateway):
        click.echo("It takes over later. This command is a child process of the gateway, and does not wait.")
        return
    while (status := status_of(home, successor)) is None or status.gateway_state is GatewayState.STARTING:
        if not is_alive(successor):
            raise _why_not(status, gateway)
        time.sleep(POLL_INTERVAL)
    if status.gateway_state in ENDED:
        raise _why_not(status, gateway)
    click.echo(f"Restarted: {status.gateway_state}, pid {status.pid}.")


def _why_not(status: Status | None, gateway: ProcessId) -> GatewayError:
    """Return the error for a successor that has ended."""
    if not is_alive(gateway):
        return NotBack("the gateway has stopped, because another person requested that meanwhile")
    error = status.error if status is not None else None
    return SuccessorFailed(error.rstrip(".") if error else "it ended after it was ready")


def _is_over(status: Status | None, gateway: ProcessId, instance: str) -> bool:
    if not is_alive(gateway):
        return True
    return status is not None and (status.instance != instance or status.gateway_state in ENDED)


def _back(home: Path, instance: str) -> Status:
    """Wait until the next life is ready, and return its state. Raise `NotBack`."""
    began = time.monotonic()
    while True:
        status = read_status(home)
        if status is None:
            raise NotBack("the state file cannot be read")
        another = status.instance != instance
        if not another and not status.restart_requested:
            raise NotBack("it has stopped, because another person requested that meanwhile")
        if another and (status.gateway_state in ENDED or status.error):
            why = (status.error or status.exit_reason or status.gateway_state).removesuffix(".")
            raise NotBack(f"it came back and ended again ({why})")
        lives = another and is_alive(status.process)
        if lives and status.gateway_state is not GatewayState.STARTING:
            return status
        if time.monotonic() - began > (START_TIMEOUT if lives else SUPERVISOR_PAUSE):
            raise NotBack("it does not become ready" if lives else "it has ended, and has not come back")
        time.sleep(POLL_INTERVAL)
