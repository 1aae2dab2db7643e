"""`hermes-trio status`: what the gateway of this home is doing."""

from __future__ import annotations

import json
import os

import click
import msgspec

from ..config_file import home_directory
from ..host.process import is_alive
from ..host.status import read_status


@click.command()
@click.option("--json", "as_json", is_flag=True, help="For programs: one JSON object.")
def command(as_json: bool) -> None:
    """Say what the gateway of this home is doing."""
    status = read_status(home_directory(os.environ))
    alive = status is not None and is_alive(status.process)
    if as_json:
        found = msgspec.to_builtins(status) if status else {}
        click.echo(json.dumps({"running": alive, **found}, indent=2))
        return
    if status is None or not alive:
        left = f" It was left {status.gateway_state}." if status else ""
        click.echo(f"No gateway is running.{left}")
        return
    click.echo(f"{status.gateway_state}, pid {status.pid}, {status.active_turns} running turn(s)")
    for name, platform in status.platforms.items():
        trouble = f" ({platform.error})" if platform.error else ""
        click.echo(f"  {name}: {platform.state}{trouble}")
